package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Limits holds the limits of a job. The zero value does not limit anything.
type Limits struct {
	// Mem limits memory, in bytes, including page cache and kernel memory. The kernel rounds it
	// down to whole pages. On v1 it separately limits the buffers of TCP and UDP to the same
	// amount. nil: no limit.
	Mem *int64 `json:"mem,omitempty"`
	// MemSwap limits memory and swap together (PBS's vmem), in bytes. It must not be below Mem, and
	// replaces it if Mem is nil. A node that does not account swap (Has("memsw") is false) ignores
	// it. nil: no limit.
	MemSwap *int64 `json:"mem_swap,omitempty"`
	// CPUs and Mems are the job's cpuset. If CPUs is empty, the job has none: its tasks are in the
	// cpuset of the parent of all jobs. If only Mems is empty, the parent's Mems apply.
	CPUs kernfs.IDSet `json:"cpus"`
	Mems kernfs.IDSet `json:"mems"`
	// CPUShares is the weight when cpus are contended, on v1's scale, where 1024 is the default.
	// Values outside 2 to 262144 are set to the nearest bound. v2's cpu.weight is derived from it.
	// 0 leaves it unchanged.
	CPUShares uint64 `json:"cpu_shares,omitempty"`
	// Quota is the cpu time that the job may use in each Period, summed over all cpus. Quota 0: no
	// limit. Period 0: 100 ms.
	Quota  time.Duration `json:"quota,omitempty"`
	Period time.Duration `json:"period,omitempty"`
	// Pids limits the number of tasks, including threads. If there are already more, they continue
	// but cannot fork. nil: no limit.
	Pids *int64 `json:"pids,omitempty"`
	// MemHigh is the memory in bytes above which the kernel throttles the job and reclaims its
	// memory (v2's memory.high; not on v1). nil: off.
	MemHigh *int64 `json:"mem_high,omitempty"`
	// MemSoft is the memory in bytes that the job keeps when the node runs out of memory. Memory
	// beyond that is reclaimed first. It is memory.soft_limit_in_bytes on v1 and memory.low on v2;
	// see memory_soft.go. nil: none.
	MemSoft *int64 `json:"mem_soft,omitempty"`
	// OOMGroup decides whether an out-of-memory kill kills the whole job (v2's memory.oom.group).
	// v1 and kernels before Linux 4.19 ignore it. A new job starts with false. nil leaves it
	// unchanged.
	OOMGroup *bool `json:"oom_group,omitempty"`
	// Hugetlb limits huge pages, both used and reserved, in bytes by page size in bytes. The kernel
	// rounds down to whole pages. Page sizes that are not named are not limited. For one that the
	// kernel does not have, the error is ErrUnsupported.
	Hugetlb map[int64]int64 `json:"hugetlb,omitempty"`
	// IO limits the job's use of block devices (v2's io.max; not on v1). Devices that are not named
	// are not limited.
	IO []IOLimit `json:"io,omitempty"`
	// Swappiness is v1's memory.swappiness, 0 to 200. v2 ignores it. nil leaves it unchanged.
	Swappiness *int `json:"swappiness,omitempty"`
	// MemHardwall and SpreadPage are the flags cpuset.mem_hardwall and cpuset.memory_spread_page of
	// v1 (cgroup-v1/cpusets.rst), for a job with CPUs. The first keeps the job's kernel memory on
	// Mems too, and the second spreads its page cache over them. v2 ignores both. If a new job has
	// false, the kernel's default applies.
	MemHardwall bool `json:"mem_hardwall,omitempty"`
	SpreadPage  bool `json:"spread_page,omitempty"`
}

// IOLimit limits a job's use of one block device. nil: no limit.
type IOLimit struct {
	Major, Minor uint32
	// ReadBytes, WriteBytes, ReadOps and WriteOps are per second and greater than 0.
	ReadBytes, WriteBytes, ReadOps, WriteOps *int64
}

// check adds limits that follow from the others, and rejects those that cannot be set on this node.
// ErrUnsupported names what is missing.
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

// lack explains where a missing controller could be found.
func (t *Tree) lack() string {
	if t.mode == ModeV2 {
		return "in " + t.v2.mount.Path("cgroup.subtree_control")
	}
	return "is mounted"
}

// Limits returns the limits in force, as the kernel shows them. If names are given, it returns only
// limits of these controllers that jobs divide among themselves: memory and swap, cpus, NUMA nodes,
// tasks, huge pages. It fails with ErrNotFound if the job has no cgroup.
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
			if gone(err) && i == 0 && !k.optional { // the other files are missing too, because the job has no cpuset
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

// readKnob reads one limit. A file may be missing because the job has no cpuset or this kernel
// lacks a feature.
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
