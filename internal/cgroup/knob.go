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

// knob is a row of a controller's table: an interface file and the limit that it holds.
type knob struct {
	file     string
	format   format
	optional bool   // a kernel without the file is accepted
	detail   bool   // left out if Limits is asked for some controllers only
	shown    string // the file to read it back from, if that is another
	use      string // the file of what is in use: the kernel refuses a limit below it (EBUSY)
	none     string // the value that lifts the limit; "" leaves it
	// falling is the turn of a write that lowers the limit, from 1. Such a write comes after all
	// others of its hierarchy, and one that raises the limit before them. 0: the order is the
	// table's.
	falling int
	// bound marks a limit that the kernel holds against another one (EINVAL). A plan keeps to that.
	// So EINVAL means that somebody else has changed the other one since the plan was made.
	bound bool

	get func(*Limits) string        // the value to write; "" for no limit; nil for a file that is only read
	set func(*Limits, string) error // the reverse, for what the kernel shows; nil for a file that is not read
	// lower writes a value that may be below what the job uses; nil is a plain write.
	lower func(d directory, value string) error
}

// amount is a knob of a limit in bytes or in tasks.
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
	Old        string // the value that undoes it; "" if nothing is to be undone
	knob       *knob
}

// plan lists the writes that turn from into to, in an order that the kernel accepts. A nil from is
// a new cgroup.
func (j *Job) plan(from *Limits, to Limits) []write {
	return j.planOf(controllerNames(), from, to)
}

// planOf is plan for the limits of some controllers.
func (j *Job) planOf(names []string, from *Limits, to Limits) []write {
	var list []write
	for _, h := range j.tree.hierarchies {
		here := slices.Clone(h.controllers())
		here = slices.DeleteFunc(here, func(c string) bool { return !slices.Contains(names, c) })
		list = append(list, plan(h.v2, here, from, &to)...)
	}
	return list
}

// plan lists the writes of one hierarchy. Limits that rise come first and those that fall last. So
// at no time the job may use less than under the smaller of the two sets of limits.
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

// turn returns -1 for a write that comes before the others, and from 1 for one that comes after.
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

// above reports whether limit a is higher than b; nil is none and the highest.
func above(a, b *int64) bool { return b != nil && (a == nil || *a > *b) }

// writes lists what differs between from and to among knobs.
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

// apply carries out a plan and reads each value back. The first error ends it. done is how many
// writes may have changed something.
func (j *Job) apply(plan []write) (done int, err error) {
	for i, w := range plan {
		d, _ := j.with(w.Controller)
		if err := j.put(d, w.knob, w.Value, w.turn() > 0); err != nil {
			return i + 1, err
		}
	}
	return len(plan), nil
}

// put writes a value and reads it back. lower: the value may be below what the job uses by now.
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

// undo takes back writes, the last one first.
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

// format is how the kernel writes a value.
type format int

const (
	asWritten format = iota
	asSize           // bytes, rounded down to pages; "max" and anything from unlimited up are no limit
	asSet            // ids, in the list format
	asDevice         // a device's line of a nested keyed file
)

// unlimited is v1's "no limit" and above: PAGE_COUNTER_MAX pages, in bytes, rounded down to whole
// pages, huge ones of up to 16 GiB among them.
const unlimited = math.MaxInt64 - 1<<35

// holds reports whether the kernel, showing got, does what want asked for.
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

// parseBytes reads a limit in bytes; nil is no limit.
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
