package kernfstest

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// knob is an interface file.
type knob struct {
	name  string
	where place
	show  func(*cgroup) string        // nil: reading is EINVAL
	store func(*cgroup, string) error // nil: writing is EINVAL; the text comes without white space at its ends
	// notifies: the kernel announces its changes to those who watch it (kernfs_notify).
	notifies bool
}

// place is in which cgroups a file is.
type place int

const (
	everywhere place = iota
	notRoot          // CFTYPE_NOT_ON_ROOT
	onlyRoot         // CFTYPE_ONLY_ON_ROOT
)

// unlimited is "max", or the greatest number of pages on v1.
const unlimited = math.MaxInt64

// tables returns the interface files of g's hierarchy: those of every cgroup, then those of each enabled controller.
func (g *cgroup) tables(yield func([]knob) bool) {
	core, byController := v1Core, v1Knobs
	if g.h.v2 {
		core, byController = v2Core, v2Knobs
	}
	if !yield(core) {
		return
	}
	for _, c := range g.enabled() {
		if !yield(byController[c]) {
			return
		}
	}
}

// knobs yields the interface files of g.
func (g *cgroup) knobs(yield func(*knob) bool) {
	for table := range g.tables {
		for i := range table {
			kn := &table[i]
			root := g.parent == nil
			if kn.where == notRoot && root || kn.where == onlyRoot && !root || g.h.k.lacks(kn.name) {
				continue
			}
			if !yield(kn) {
				return
			}
		}
	}
}

func (g *cgroup) knob(name string) *knob {
	for kn := range g.knobs {
		if kn.name == name {
			return kn
		}
	}
	return nil
}

// kept is a file that shows what was written last, and initial before that; nothing else in the fake heeds it.
func kept(name, initial string) knob {
	return knob{
		name: name,
		show: func(g *cgroup) string {
			if v, ok := g.values[name]; ok {
				return v + "\n"
			}
			return initial
		},
		store: func(g *cgroup, v string) error {
			g.values[name] = v
			return nil
		},
	}
}

// keptNumber is kept for whole numbers from low to high; others get the errno outside.
func keptNumber(name string, initial, low, high int64, outside unix.Errno) knob {
	kn := kept(name, strconv.FormatInt(initial, 10)+"\n")
	kn.store = func(g *cgroup, v string) error {
		n, err := number(v)
		if err != nil {
			return err
		}
		if n < low || n > high {
			return outside
		}
		g.values[name] = strconv.FormatInt(n, 10)
		return nil
	}
	return kn
}

// keptValue is what a kept file with a number holds.
func (g *cgroup) keptValue(name string, initial int64) int64 {
	if v, ok := g.values[name]; ok {
		n, _ := strconv.ParseInt(v, 10, 64) // keptNumber stored it
		return n
	}
	return initial
}

// always is a file that only reads, and always the same.
func always(name, text string) knob {
	return knob{name: name, show: func(*cgroup) string { return text }}
}

// reads is a file that only reads.
func reads(name string, show func(*cgroup) string) knob { return knob{name: name, show: show} }

// off moves a file out of the root.
func off(kn knob) knob {
	kn.where = notRoot
	return kn
}

// top leaves a file in the root only.
func top(kn knob) knob {
	kn.where = onlyRoot
	return kn
}

// number is kstrtoll with base 0: "0x10" and "010" are numbers too; EINVAL, or ERANGE when it does not fit.
func number(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 0, 64)
	switch {
	case err == nil && !strings.Contains(s, "_"):
		return n, nil
	case errors.Is(err, strconv.ErrRange):
		return 0, unix.ERANGE
	}
	return 0, unix.EINVAL
}

// unsigned is kstrtoull with base 0.
func unsigned(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 0, 64)
	switch {
	case err == nil && !strings.Contains(s, "_"):
		return n, nil
	case errors.Is(err, strconv.ErrRange):
		return 0, unix.ERANGE
	}
	return 0, unix.EINVAL
}

// size is memparse and page_counter_memparse: a number with an optional K, M, G, T, P or E, rounded down to pages;
// anything that follows is EINVAL. The word is "-1" on v1 and "max" on v2.
func size(s, word string) (int64, error) {
	if s == word {
		return unlimited, nil
	}
	digits, shift := s, 0
	if n := len(s); n > 0 {
		if i := strings.IndexByte("KMGTPE", s[n-1]&^0x20); i >= 0 && s[n-1] >= 'A' {
			digits, shift = s[:n-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(digits, 0, 64)
	if err != nil || strings.Contains(s, "_") {
		return 0, unix.EINVAL
	}
	if n > math.MaxUint64>>shift || n<<shift >= unlimited/pageSize*pageSize {
		return unlimited, nil
	}
	return int64(n << shift / pageSize * pageSize), nil
}

const pageSize = 4096

// showSize prints what size parsed; v1 has no word for unlimited.
func showSize(n int64, word string) string {
	if n == unlimited {
		if word == "-1" {
			n = unlimited / pageSize * pageSize // PAGE_COUNTER_MAX
		} else {
			return word + "\n"
		}
	}
	return strconv.FormatInt(n, 10) + "\n"
}

// keyed prints a flat-keyed file from key, value, key, value...
func keyed(pairs ...any) string {
	var b strings.Builder
	for pair := range slices.Chunk(pairs, 2) {
		b.WriteString(pair[0].(string) + " " + strconv.FormatInt(pair[1].(int64), 10) + "\n")
	}
	return b.String()
}

func line(n int64) string { return strconv.FormatInt(n, 10) + "\n" }

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
