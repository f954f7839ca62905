package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// knob is a row of a controller's table: an interface file and the limit that it contains.
type knob struct {
	file     string
	format   format
	optional bool   // the kernel may lack the file
	detail   bool   // skipped if Limits is called for certain controllers only
	shown    string // the file to read back, if different
	use      string // the file of current use: the kernel refuses a limit below it (EBUSY)
	none     string // the value that removes the limit; "" means that it stays
	// falling is the position, from 1, of a write that lowers the limit. Such writes come after all
	// others of the hierarchy, and writes that raise the limit come before them. With 0 the order
	// of the table applies.
	falling int
	// bound marks a limit that must stay consistent with another one (otherwise EINVAL). Plans
	// respect that. So EINVAL means that somebody has changed the other limit since the plan was
	// made.
	bound bool

	get func(*Limits) string        // the value to write; "" for no limit; nil for a read-only file
	set func(*Limits, string) error // the reverse, for the kernel's text; nil for a write-only file
	// lower writes a value that may be below what the job uses. If lower is nil, the value is
	// simply written.
	lower func(d directory, value string) error
}

// amount is a knob for a limit in bytes or tasks.
func amount(k knob, at func(*Limits) **int64) knob {
	k.get = func(l *Limits) string { return formatBytes(*at(l)) }
	k.set = func(l *Limits, text string) (err error) {
		*at(l), err = parseBytes(text)
		return err
	}
	return k
}

// write is one value for one file of a job.
type write struct {
	Controller string
	File       string
	Value      string
	Old        string // the value that undoes it; "" if there is nothing to undo
	knob       *knob
}

// plan lists the writes that change from into to, in an order that the kernel accepts. A nil from
// means a new cgroup.
func (j *Job) plan(from *Limits, to Limits) []write {
	return j.planOf(controllerNames(), from, to)
}

// planOf is like plan, but only for the limits of some controllers.
func (j *Job) planOf(names []string, from *Limits, to Limits) []write {
	var list []write
	for _, h := range j.tree.hierarchies {
		here := slices.Clone(h.controllers())
		here = slices.DeleteFunc(here, func(c string) bool { return !slices.Contains(names, c) })
		list = append(list, plan(h.v2, here, from, &to)...)
	}
	return list
}

// plan lists the writes of one hierarchy. It raises limits first and lowers them last. So the job
// can always use at least as much as under the lower of the two sets.
func plan(v2 bool, names []string, from, to *Limits) []write {
	var list []write
	for _, c := range controllers {
		if slices.Contains(names, c.name) {
			list = append(list, c.writes(v2, from, to)...)
		}
	}
	if from != nil {
		slices.SortStableFunc(list, func(a, b write) int { return a.turn() - b.turn() })
	}
	return list
}

// turn returns -1 for a write that comes before the others, and 1 or more for one that comes after.
func (w write) turn() int {
	if w.knob.falling == 0 {
		return 0
	}
	value, err := parseBytes(w.Value)
	old, olderr := parseBytes(w.Old)
	if err != nil || olderr != nil || above(value, old) {
		return -1
	}
	return w.knob.falling
}

// above reports whether limit a is higher than b. Nil means no limit, which is the highest.
func above(a, b *int64) bool { return b != nil && (a == nil || *a > *b) }

// writes lists the knobs whose values differ between from and to.
func writes(controller string, knobs []knob, from, to *Limits) []write {
	var list []write
	for i := range knobs {
		k := &knobs[i]
		if k.get == nil {
			continue
		}
		value, old := k.get(to), ""
		if from != nil {
			old = k.get(from)
		}
		if value == old {
			continue
		}
		if value == "" {
			value = k.none
		}
		if old == "" && from != nil {
			old = k.none
		}
		if value != "" {
			list = append(list, write{Controller: controller, File: k.file, Value: value, Old: old, knob: k})
		}
	}
	return list
}

// apply carries out a plan and reads each value back. It stops at the first error. done is the
// number of writes that may have changed something. check is called right before NUMA nodes change,
// unless it is nil.
func (j *Job) apply(plan []write, check func() error) (done int, err error) {
	for i, w := range plan {
		if w.File == cpusetMems && check != nil {
			if err := check(); err != nil {
				return i, err
			}
		}
		d, _ := j.with(w.Controller)
		if err := j.put(d, w.knob, w.Value, w.turn() > 0); err != nil {
			return i + 1, err
		}
	}
	return len(plan), nil
}

// put writes a value and reads it back. lower means that the value may be below what the job uses.
func (j *Job) put(d directory, k *knob, value string, lower bool) error {
	var err error
	if lower && k.lower != nil {
		err = k.lower(d, value)
	} else {
		err = d.Write(k.file, value)
	}
	switch {
	case err == nil:
	case k.optional && errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, fs.ErrNotExist) && d.Exists("."):
		return fmt.Errorf("this kernel has no %s: %w", d.Path(k.file), ErrUnsupported)
	case errors.Is(err, unix.EBUSY) && k.use != "":
		b, _ := d.ReadFile(k.use)
		return fmt.Errorf("%s: %s bytes in use: %w: %w", d.Path(k.use), trim(b), ErrInUse, err)
	case errors.Is(err, unix.EINVAL) && k.bound:
		return fmt.Errorf("limits were changed meanwhile: %w: %w", ErrNotInForce, err)
	default:
		return err
	}
	shown := k.file
	if k.shown != "" {
		shown = k.shown
	}
	b, err := d.ReadValue(shown)
	if err != nil {
		return err
	}
	if got := trim(b); !k.format.holds(value, got) {
		return fmt.Errorf("%s is %q, wanted %q: %w", d.Path(shown), got, value, ErrNotInForce)
	}
	return nil
}

// undo reverts writes, the last one first.
func (j *Job) undo(done []write) error {
	var errs []error
	for _, w := range slices.Backward(done) {
		if w.Old == "" {
			continue
		}
		d, _ := j.with(w.Controller)
		if err := j.put(d, w.knob, w.Old, true); err != nil {
			errs = append(errs, fmt.Errorf("undo: %w", err))
		}
	}
	return errors.Join(errs...)
}

// format is how the kernel formats a value.
type format int

const (
	asWritten format = iota
	asSize           // bytes, rounded down to whole pages; "max" and values of unlimited and more mean no limit
	asSet            // ids, in the list format
	asDevice         // a device's line of a nested keyed file
)

// unlimited is the least value that means no limit on v1. The kernel's is PAGE_COUNTER_MAX pages in
// bytes, rounded down to whole pages, including huge ones of up to 16 GiB.
const unlimited = math.MaxInt64 - 1<<35

// holds reports whether the kernel's value got corresponds to want.
func (f format) holds(want, got string) bool {
	switch f {
	case asSize:
		w, err := parseBytes(want)
		g, gerr := parseBytes(got)
		if err != nil || gerr != nil || w == nil || g == nil {
			return err == nil && gerr == nil && w == g
		}
		return *g == *w-*w%int64(os.Getpagesize())
	case asSet:
		w, err := kernfs.ParseIDSet(want)
		g, gerr := kernfs.ParseIDSet(got)
		return err == nil && gerr == nil && (w.Equal(g) || w.IsEmpty())
	case asDevice:
		return holdsDevice(want, got)
	}
	return want == got
}

// parseBytes reads a limit in bytes. Nil means no limit.
func parseBytes(text string) (*int64, error) {
	if text == "max" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, err
	}
	if n < 0 || n >= unlimited {
		return nil, nil
	}
	return &n, nil
}

func formatBytes(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}
