package kernfstest

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// knob is an interface file.
type knob struct {
	name  string
	show  func(*cgroup) string        // nil: reading is EINVAL
	store func(*cgroup, string) error // nil: writing is EINVAL; white space around the text is removed
	// notRoot is CFTYPE_NOT_ON_ROOT.
	notRoot bool
	// notifies: the kernel announces changes to watchers (kernfs_notify).
	notifies bool
}

// unlimited means no limit: "max", or on v1 the greatest number of pages.
const unlimited = math.MaxInt64

// tables yields the files that every cgroup of g's version has, then those of each controller of g.
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
			if kn.notRoot && g.parent == nil || g.h.k.lacks(kn.name) {
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

// valueFile is a file with an integer from low to high that has no effect in the fake. Other
// numbers fail with the errno outside.
func valueFile(name string, initial, low, high int64, outside unix.Errno) knob {
	return knob{
		name: name,
		show: func(g *cgroup) string { return line(g.value(name, initial)) },
		store: func(g *cgroup, v string) error {
			n, err := number(v)
			if err != nil {
				return err
			}
			if n < low || n > high {
				return outside
			}
			g.setValue(name, n)
			return nil
		},
	}
}

func (g *cgroup) setValue(name string, n int64) { g.values[name] = strconv.FormatInt(n, 10) }

// value returns the number that was set under name.
func (g *cgroup) value(name string, initial int64) int64 {
	if v, ok := g.values[name]; ok {
		n, _ := strconv.ParseInt(v, 10, 64) // setValue has stored it
		return n
	}
	return initial
}

// always is a read-only file with a constant text.
func always(name, text string) knob {
	return knob{name: name, show: func(*cgroup) string { return text }}
}

// reads is a read-only file.
func reads(name string, show func(*cgroup) string) knob { return knob{name: name, show: show} }

// off removes a file from the root cgroup.
func off(kn knob) knob {
	kn.notRoot = true
	return kn
}

// number is kstrtoll for decimal numbers.
func number(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, unix.EINVAL
	}
	return n, nil
}

// size is memparse and page_counter_memparse. It parses a decimal number with an optional K, M or
// G, and rounds it down to pages. The word for no limit is "-1" on v1 and "max" on v2.
func size(s, word string) (int64, error) {
	if s == word {
		return unlimited, nil
	}
	digits, shift := s, 0
	if s != "" {
		if i := strings.IndexByte("KMG", s[len(s)-1]); i >= 0 {
			digits, shift = s[:len(s)-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, unix.EINVAL
	}
	if n > unlimited>>shift || n<<shift >= unlimited/pageSize*pageSize {
		return unlimited, nil
	}
	return int64(n << shift / pageSize * pageSize), nil
}

const pageSize = 4096

// showSize formats what size has parsed. v1 has no word for unlimited.
func showSize(n int64, word string) string {
	switch {
	case n != unlimited:
		return line(n)
	case word == "-1":
		return line(unlimited / pageSize * pageSize) // PAGE_COUNTER_MAX
	}
	return word + "\n"
}

// keyed formats a flat-keyed file from key, value, key, value...
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
