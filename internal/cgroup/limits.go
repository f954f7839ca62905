package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Limits is what a job may use. The zero value limits nothing.
type Limits struct {
	// Mem bounds memory, in bytes, page cache and kernel memory included. The kernel rounds it down to whole pages. nil: no
	// limit.
	Mem *int64
	// MemSwap bounds memory and swap together (PBS's vmem), in bytes; not below Mem, which it stands for when Mem is nil.
	// Where the kernel does not account swap (Has("memsw") is false) it is passed over. nil: no limit.
	MemSwap *int64
	// CPUs and Mems are the job's own cpuset. With CPUs empty the job has none: its tasks are in the cpuset of the parent of
	// all jobs. With Mems empty beside CPUs it is the parent's Mems.
	CPUs, Mems kernfs.IDSet
	// CPUShares is the weight when cpus are contended, on v1's scale: 1024 is the default; what is outside of 2 to 262144
	// counts as the nearest. v2's cpu.weight follows from it. 0 leaves it.
	CPUShares uint64
	// Quota is the cpu time that the job may use in each Period, over all cpus. Quota 0: no limit. Period 0: 100 ms.
	Quota, Period time.Duration
	// Pids bounds the number of tasks, threads included. nil: no limit.
	Pids *int64
	// Swappiness is v1's memory.swappiness, 0 to 200. v2 has no such thing and passes it over. nil leaves it.
	Swappiness *int
}

// MIN_SHARES and MAX_SHARES of kernel/sched/sched.h.
const (
	sharesMin = 2
	sharesMax = 1 << 18
)

const defaultPeriod = 100 * time.Millisecond

// check fills in what follows from the rest and finds what cannot be set here. ErrUnsupported names what is missing.
func (j *Job) check(l Limits) (Limits, error) {
	if l.Mem != nil && *l.Mem < 0 || l.MemSwap != nil && *l.MemSwap < 0 || l.Pids != nil && *l.Pids < 0 {
		return l, errors.New("a limit is negative")
	}
	if l.MemSwap != nil {
		if l.Mem == nil {
			l.Mem = l.MemSwap
		}
		if *l.MemSwap < *l.Mem {
			return l, fmt.Errorf("memory and swap (%d bytes) below memory alone (%d bytes)", *l.MemSwap, *l.Mem)
		}
	}
	switch {
	case l.Quota < 0 || l.Period < 0:
		return l, errors.New("a cpu quota is negative")
	case l.Quota == 0:
		l.Period = 0
	case l.Period == 0:
		l.Period = defaultPeriod
	}
	if l.CPUShares != 0 {
		l.CPUShares = min(max(l.CPUShares, sharesMin), sharesMax)
	}
	for _, need := range []struct {
		controller string
		asked      bool
	}{
		{"memory", l.Mem != nil},
		{"cpuset", !l.CPUs.IsEmpty()},
		{"cpu", l.CPUShares != 0 || l.Quota != 0},
		{"pids", l.Pids != nil},
	} {
		if need.asked && j.tree.with(need.controller) == nil {
			return l, fmt.Errorf("no %s controller %s: %w", need.controller, j.tree.lack(), ErrUnsupported)
		}
	}
	return j.fillMems(l)
}

// lack says where a missing controller would have to come from.
func (t *Tree) lack() string {
	if t.mode == ModeV2 {
		return "in " + t.v2.mount.Path("cgroup.subtree_control")
	}
	return "is mounted"
}

// fillMems gives a cpuset that names no NUMA nodes those of the parent; v1 needs some. A cpuset directory that the job
// has only because cpuset is mounted together with other controllers is filled as well.
func (j *Job) fillMems(l Limits) (Limits, error) {
	d, ok := j.with("cpuset")
	if !ok || d.h.v2 {
		return l, nil
	}
	if l.CPUs.IsEmpty() {
		l.Mems = kernfs.IDSet{}
		if slices.ContainsFunc(d.h.controllers, func(c string) bool { return c != "cpuset" }) {
			var err error
			if l.CPUs, err = j.tree.CPUs(); err != nil {
				return l, err
			}
		}
	}
	if !l.CPUs.IsEmpty() && l.Mems.IsEmpty() {
		var err error
		if l.Mems, err = j.tree.Mems(); err != nil {
			return l, err
		}
	}
	return l, nil
}

// Apply changes the limits of a live job to l: what l does not limit is lifted, except that CPUShares 0 and Swappiness
// nil leave what is. All of it comes into force or nothing. On v1 a job without a cpuset of its own cannot get one, nor
// the other way round, and a memory limit below what the job uses and cannot give back is EBUSY; on v2 the kernel takes
// such a limit and kills.
func (j *Job) Apply(l Limits) error {
	old, err := j.Limits()
	if err != nil {
		return err
	}
	l, err = j.check(l)
	if err != nil {
		return fmt.Errorf("limit job %s: %w", j.id, err)
	}
	if d, ok := j.with("cpuset"); ok && !d.h.v2 && old.CPUs.IsEmpty() != l.CPUs.IsEmpty() {
		return fmt.Errorf("limit job %s: cpus %q instead of %q: %w", j.id, l.CPUs, old.CPUs, ErrUnsupported)
	}
	plan := j.plan(&old, l)
	err = j.apply(plan)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("limit job %s: %w", j.id, err)
	for _, w := range slices.Backward(plan) {
		if undo := j.undo(w); undo != nil {
			err = errors.Join(err, undo)
		}
	}
	return err
}

// Limits returns the limits in force, as the kernel shows them: all, or those of some controllers. It fails with
// ErrNotFound when the job has no cgroup.
func (j *Job) Limits(controllers ...string) (Limits, error) {
	var l Limits
	if !j.home().Exists(".") {
		return l, fmt.Errorf("limits of job %s: %w", j.id, ErrNotFound)
	}
	var errs []error
	for _, d := range j.dirs {
		for _, k := range d.h.knobs() {
			if k.set == nil || !d.h.has(k.controller) || len(controllers) > 0 && !slices.Contains(controllers, k.controller) {
				continue
			}
			b, err := d.ReadFile(k.file)
			if gone(err) {
				continue // no cpuset, or a feature that this kernel lacks
			}
			text := strings.TrimSpace(string(b))
			if err == nil {
				if err = k.set(&l, text); err != nil {
					err = &kernfs.ParseError{File: d.Path(k.file), Text: text, Err: err}
				}
			}
			if err != nil {
				errs = append(errs, err)
			}
		}
	}
	return l, errors.Join(errs...)
}
