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

// knob is a row of the tables in v1.go and v2.go: a resource and the file that limits it.
type knob struct {
	controller string
	file       string
	format     format
	optional   bool                        // kernels without the file do without
	detail     bool                        // not read when only some controllers are asked for
	shown      string                      // the file to read it back from, where that is not file
	use        string                      // the file that tells what is in use: the kernel refuses a limit below it (EBUSY)
	none       string                      // what to write to lift the limit; "" leaves it
	get        func(*Limits) string        // what to write; "" for no limit; nil where it is only read
	set        func(*Limits, string) error // the reverse, for what the kernel shows
}

func (h *hierarchy) knobs() []knob {
	if h.v2 {
		return v2Knobs
	}
	return v1Knobs
}

// write is one value for one file of a job.
type write struct {
	Controller string
	File       string
	Value      string
	Old        string // what to write to undo it; "" where nothing is to be undone
	knob       *knob
}

// plan lists the writes that turn from into to, in an order that the kernel takes. from nil is a new cgroup.
func (j *Job) plan(from *Limits, to Limits) []write {
	var plan []write
	for _, h := range j.tree.hierarchies {
		if h.v2 {
			plan = append(plan, planV2(h.controllers(), from, &to)...)
		} else {
			plan = append(plan, planV1(h.controllers(), from, &to)...)
		}
	}
	return plan
}

// writes lists what differs between from and to among the knobs of controllers.
func writes(knobs []knob, controllers []string, from, to *Limits) []write {
	var list []write
	for i := range knobs {
		k := &knobs[i]
		if k.get == nil || !slices.Contains(controllers, k.controller) {
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
			list = append(list, write{Controller: k.controller, File: k.file, Value: value, Old: old, knob: k})
		}
	}
	return list
}

// apply carries out a plan and reads each value back. It stops at the first error and tells how many writes may have
// changed something.
func (j *Job) apply(plan []write) (done int, err error) {
	for i, w := range plan {
		d, _ := j.with(w.Controller)
		if err := j.put(d, w.knob, w.Value, w.turn() > 0); err != nil {
			return i + 1, err
		}
	}
	return len(plan), nil
}

// put writes a value and reads it back. lower: it may be below what the job uses by now.
func (j *Job) put(d directory, k *knob, value string, lower bool) error {
	var err error
	if lower && k.file == memoryMax {
		err = d.setMemoryMax(value)
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
	default:
		return err
	}
	shown := k.file
	if k.shown != "" {
		shown = k.shown
	}
	b, err := d.ReadFile(shown)
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

// unlimited is v1's "no limit" and above: PAGE_COUNTER_MAX pages, in bytes, rounded down to whole pages, huge ones of up
// to 16 GiB among them.
const unlimited = math.MaxInt64 - 1<<35

// holds tells whether the kernel, showing got, does what want asked for.
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
