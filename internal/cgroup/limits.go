package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Limits is what a job may use. The zero value limits nothing.
type Limits struct {
	// Mem bounds memory, in bytes, page cache and kernel memory included. The kernel rounds it down
	// to whole pages. On v1 it bounds buffers of TCP and UDP by themselves, beside the rest. nil:
	// no limit.
	Mem *int64 `json:"mem,omitempty"`
	// MemSwap bounds memory and swap together (PBS's vmem), in bytes; not below Mem, which it
	// stands for when Mem is nil. A node that does not account swap (Has("memsw") is false) passes
	// over it. nil: no limit.
	MemSwap *int64 `json:"mem_swap,omitempty"`
	// CPUs and Mems are the job's own cpuset. With CPUs empty the job has none: its tasks are in
	// the cpuset of the parent of all jobs. With Mems empty beside CPUs it is the parent's Mems.
	CPUs kernfs.IDSet `json:"cpus"`
	Mems kernfs.IDSet `json:"mems"`
	// CPUShares is the weight when cpus are contended, on v1's scale: 1024 is the default. Values
	// outside of 2 to 262144 count as the nearest. v2's cpu.weight follows from it. 0 leaves it.
	CPUShares uint64 `json:"cpu_shares,omitempty"`
	// Quota is the cpu time that the job may use in each Period, over all cpus. Quota 0: no limit.
	// Period 0: 100 ms.
	Quota  time.Duration `json:"quota,omitempty"`
	Period time.Duration `json:"period,omitempty"`
	// Pids bounds the number of tasks, threads included; more than there is room for may go on, but
	// nothing forks any more. nil: no limit.
	Pids *int64 `json:"pids,omitempty"`
	// MemHigh is the memory in bytes above which the kernel throttles the job and reclaims from it
	// (v2's memory.high; none on v1). nil: off.
	MemHigh *int64 `json:"mem_high,omitempty"`
	// MemSoft is the memory in bytes that the kernel leaves the job when the node runs out of
	// memory. Memory beyond it is reclaimed first. The file is memory.soft_limit_in_bytes on v1 and
	// memory.low on v2, see memory_soft.go. nil: none.
	MemSoft *int64 `json:"mem_soft,omitempty"`
	// OOMGroup says whether the kernel, when it kills for lack of memory, kills the whole job (v2's
	// memory.oom.group). v1 and kernels before Linux 4.19 have no such thing and pass it over; a
	// new job has false. nil leaves it.
	OOMGroup *bool `json:"oom_group,omitempty"`
	// Hugetlb bounds huge pages, in bytes by page size in bytes, both those in use and those
	// reserved. The kernel rounds down to whole pages. A page size that is not named is not
	// limited; one that the kernel does not have is ErrUnsupported.
	Hugetlb map[int64]int64 `json:"hugetlb,omitempty"`
	// IO bounds what the job does to block devices (v2's io.max; none on v1). A device that is not
	// named is not limited.
	IO []IOLimit `json:"io,omitempty"`
	// Swappiness is v1's memory.swappiness, 0 to 200. v2 has no such thing and passes it over. nil
	// leaves it.
	Swappiness *int `json:"swappiness,omitempty"`
	// MemHardwall and SpreadPage are the flags cpuset.mem_hardwall and cpuset.memory_spread_page of
	// v1 (cgroup-v1/cpusets.rst), for a job with CPUs of its own. Its kernel memory is on Mems,
	// too, and its page cache is spread over them. v2 has neither and passes them over. false of a
	// new job leaves what a new cpuset has.
	MemHardwall bool `json:"mem_hardwall,omitempty"`
	SpreadPage  bool `json:"spread_page,omitempty"`
}

// IOLimit bounds what a job does to one block device. nil: no limit.
type IOLimit struct {
	Major, Minor uint32
	// ReadBytes and WriteBytes are per second, and so are ReadOps and WriteOps; each is greater
	// than 0.
	ReadBytes, WriteBytes, ReadOps, WriteOps *int64
}

// check fills in what follows from the rest and finds what cannot be set here. ErrUnsupported names
// what is missing.
func (j *Job) check(l Limits) (Limits, error) {
	for _, c := range controllers {
		if c.asked != nil && c.asked(&l) && j.tree.with(c.name) == nil {
			return l, fmt.Errorf("no %s controller %s: %w", c.name, j.tree.lack(), ErrUnsupported)
		}
		if c.check == nil {
			continue
		}
		if err := c.check(j, &l); err != nil {
			return l, err
		}
	}
	return l, nil
}

// lack says where a missing controller would have to come from.
func (t *Tree) lack() string {
	if t.mode == ModeV2 {
		return "in " + t.v2.mount.Path("cgroup.subtree_control")
	}
	return "is mounted"
}

// Limits returns the limits in force, as the kernel shows them. names of controllers select what of
// these is shared out among jobs: memory and swap, cpus, NUMA nodes, tasks, huge pages. Limits
// fails with ErrNotFound when the job has no cgroup.
func (j *Job) Limits(names ...string) (Limits, error) {
	var l Limits
	found := false
	var errs []error
	for _, c := range controllers {
		d, ok := j.with(c.name)
		if !ok || len(names) > 0 && !slices.Contains(names, c.name) {
			continue
		}
		if c.read != nil {
			if err := c.read(d, &l); err != nil && !gone(err) {
				errs = append(errs, err)
			}
		}
		for i, k := range c.knobs(d.h.v2) {
			if k.set == nil || k.detail && len(names) > 0 {
				continue
			}
			err := d.readKnob(&k, &l)
			if gone(err) && i == 0 && !k.optional { // as is all else of a job without a cpuset
				break
			}
			found = found || err == nil
			if err != nil && !gone(err) {
				errs = append(errs, err)
			}
		}
	}
	if !found && !j.home().Exists(".") {
		return l, fmt.Errorf("limits of job %s: %w", j.id, ErrNotFound)
	}
	return l, errors.Join(errs...)
}

// readKnob reads one limit. A file that is missing may be that of a job without a cpuset, or a
// feature that this kernel lacks.
func (d directory) readKnob(k *knob, l *Limits) error {
	b, err := d.ReadValue(k.file)
	if err != nil {
		return err
	}
	if err := k.set(l, trim(b)); err != nil {
		return &kernfs.ParseError{File: d.Path(k.file), Text: trim(b), Err: err}
	}
	return nil
}
