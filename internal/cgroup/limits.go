package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Limits is what a job may use. The zero value limits nothing. As JSON it is what of that is shared out among jobs (see Cover).
type Limits struct {
	// Mem bounds memory, in bytes, page cache and kernel memory included. The kernel rounds it down
	// to whole pages. On v1 it bounds buffers of TCP and UDP by themselves, beside the rest. nil: no
	// limit.
	Mem *int64 `json:"mem,omitempty"`
	// MemSwap bounds memory and swap together (PBS's vmem), in bytes; not below Mem, which it stands for when Mem is nil.
	// Where the kernel does not account swap (Has("memsw") is false) it is passed over. nil: no limit.
	MemSwap *int64 `json:"mem_swap,omitempty"`
	// CPUs and Mems are the job's own cpuset. With CPUs empty the job has none: its tasks are in the cpuset of the parent of
	// all jobs. With Mems empty beside CPUs it is the parent's Mems.
	CPUs kernfs.IDSet `json:"cpus"`
	Mems kernfs.IDSet `json:"mems"`
	// CPUShares is the weight when cpus are contended, on v1's scale: 1024 is the default; what is outside of 2 to 262144
	// counts as the nearest. v2's cpu.weight follows from it. 0 leaves it.
	CPUShares uint64 `json:"-"`
	// Quota is the cpu time that the job may use in each Period, over all cpus. Quota 0: no limit. Period 0: 100 ms.
	Quota  time.Duration `json:"-"`
	Period time.Duration `json:"-"`
	// Pids bounds the number of tasks, threads included; more than there is room for may go on, but nothing forks any more.
	// nil: no limit.
	Pids *int64 `json:"-"`
	// MemHigh is the memory in bytes above which the kernel throttles the job and reclaims from it (v2's memory.high; none
	// on v1). nil: off.
	MemHigh *int64 `json:"mem_high,omitempty"`
	// MemSoft is the memory in bytes that the kernel leaves the job when the node runs out of
	// memory. Memory beyond it is reclaimed first. The file is memory.soft_limit_in_bytes on v1 and
	// memory.low on v2, see soft.go. nil: none.
	MemSoft *int64 `json:"-"`
	// OOMGroup says whether the kernel, when it kills for lack of memory, kills the whole job (v2's memory.oom.group). v1
	// and kernels before Linux 4.19 have no such thing and pass it over; a new job has false. nil leaves it.
	OOMGroup *bool `json:"-"`
	// Hugetlb bounds huge pages, in bytes by page size in bytes, both those in use and those reserved. The kernel rounds
	// down to whole pages. A page size that is not named is not limited; one that the kernel does not have is ErrUnsupported.
	Hugetlb map[int64]int64 `json:"hugetlb,omitempty"`
	// IO bounds what the job does to block devices (v2's io.max; none on v1). A device that is not named is not limited.
	IO []IOLimit `json:"-"`
	// Isolated takes CPUs, which must not be empty, out of the kernel's load balancing and gives them to nobody else (v2's
	// cpuset.cpus.partition, as a remote partition: Linux 6.7). The directories above the job keep the right to them when
	// the job is gone. Cpus that the kernel does not isolate are ErrNotInForce, with its reason.
	Isolated bool `json:"-"`
	// Swappiness is v1's memory.swappiness, 0 to 200. v2 has no such thing and passes it over. nil leaves it.
	Swappiness *int `json:"-"`
	// MemHardwall and SpreadPage are the flags cpuset.mem_hardwall and cpuset.memory_spread_page of
	// v1 (cgroup-v1/cpusets.rst), for a job with CPUs of its own. Its kernel memory is on Mems,
	// too, and its page cache is spread over them. v2 has neither and passes them over. false of a
	// new job leaves what a new cpuset has.
	MemHardwall, SpreadPage bool `json:"-"`
}

// IOLimit bounds what a job does to one block device. nil: no limit.
type IOLimit struct {
	Major, Minor uint32
	// ReadBytes and WriteBytes are per second, and so are ReadOps and WriteOps; each is greater than 0.
	ReadBytes, WriteBytes, ReadOps, WriteOps *int64
}

// MIN_SHARES and MAX_SHARES of kernel/sched/sched.h.
const (
	sharesMin = 2
	sharesMax = 1 << 18
)

const defaultPeriod = 100 * time.Millisecond

// check fills in what follows from the rest and finds what cannot be set here. ErrUnsupported names what is missing.
func (j *Job) check(l Limits) (Limits, error) {
	for _, n := range []*int64{l.Mem, l.MemSwap, l.MemHigh, l.MemSoft, l.Pids} {
		if n != nil && *n < 0 {
			return l, fmt.Errorf("a limit is negative: %d", *n)
		}
	}
	for size, n := range l.Hugetlb {
		if n < 0 || size <= 0 {
			return l, fmt.Errorf("%d bytes in huge pages of %d bytes", n, size)
		}
	}
	if err := checkIO(l.IO); err != nil {
		return l, err
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
		{"memory", l.Mem != nil || l.MemHigh != nil || l.MemSoft != nil},
		{"cpuset", !l.CPUs.IsEmpty()},
		{"cpu", l.CPUShares != 0 || l.Quota != 0},
		{"pids", l.Pids != nil},
		{"hugetlb", len(l.Hugetlb) > 0},
		{"io", len(l.IO) > 0},
	} {
		if need.asked && j.tree.with(need.controller) == nil {
			return l, fmt.Errorf("no %s controller %s: %w", need.controller, j.tree.lack(), ErrUnsupported)
		}
	}
	if d, ok := j.with("memory"); ok && l.MemHigh != nil && !d.h.v2 {
		return l, fmt.Errorf("%s needs memory on cgroup v2: %w", memoryHigh, ErrUnsupported)
	}
	if err := j.checkIsolated(l); err != nil {
		return l, err
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
		if slices.ContainsFunc(d.h.controllers(), func(c string) bool { return c != "cpuset" }) {
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

// Limits returns the limits in force, as the kernel shows them: all, or of some controllers what is shared out among jobs
// (memory and swap, cpus, NUMA nodes, tasks, huge pages). It fails with ErrNotFound when the job has no cgroup.
func (j *Job) Limits(controllers ...string) (Limits, error) {
	var l Limits
	if !j.home().Exists(".") {
		return l, fmt.Errorf("limits of job %s: %w", j.id, ErrNotFound)
	}
	var errs []error
	asked := func(controller string) bool { return len(controllers) == 0 || slices.Contains(controllers, controller) }
	for _, d := range j.dirs {
		if d.h.has("hugetlb") && asked("hugetlb") {
			if err := d.readHugetlb(&l); err != nil && !gone(err) {
				errs = append(errs, err)
			}
		}
		for _, k := range d.h.knobs() {
			if k.set == nil || !d.h.has(k.controller) || !asked(k.controller) || k.detail && len(controllers) > 0 {
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
