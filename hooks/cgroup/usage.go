package main

import (
	"cmp"
	"errors"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/usage"
)

// Where a report's mem comes from.
const (
	memSampled    = "anonymous and shared memory, sampled when use changed"
	memCgroupPeak = "cgroup peak, page cache included"
)

// measure reads what the job has used so far, for the report and as the kernel has it. With an error it still returns
// what could be read; u is nil when the job has no cgroup any more.
func (h *hook) measure(j *cgroup.Job, s state) (u *hostapi.HostUsage, counters cgroup.Usage, err error) {
	counters, err = j.Usage()
	if errors.Is(err, cgroup.ErrNotFound) {
		return nil, counters, nil
	}
	u = &hostapi.HostUsage{
		CPUs: s.CPUs, Mems: s.Mems, NCPUs: s.NCPUs, ProcessesAttached: s.Attached,
		CPUTSeconds: seconds(counters.CPU), UserSeconds: seconds(counters.User), SystemSeconds: seconds(counters.System),
		MemBytes: counters.MemPeak, VmemBytes: counters.MemSwapPeak, CgroupPeakBytes: counters.CgroupPeak,
		MemLimitBytes: counters.MemLimit, OOMKills: counters.OOMKills, PidsPeak: counters.PidsPeak,
		MajorFaults: counters.MajorFaults, ThrottledSeconds: seconds(counters.Throttled), Pressure: pressure(counters),
	}
	if n := counters.OOMKills; n != nil && *n > 0 {
		t := h.told(j)
		u.OOMKills = t.killed(*n)
	}
	if !h.policy.kernelLimitsMem() {
		u.MemLimitBytes = s.MemLimit
	}
	if h.policy.Hugetlb.Enabled { // the server may not know hpmem elsewhere
		u.HugetlbPeakBytes = counters.HugetlbPeak
	}
	if held := heldAtExcess(j); u.MemBytes != nil && held > *u.MemBytes {
		u.MemBytes = &held
	}
	if u.MemBytes != nil {
		u.MemSource = memSampled
	}
	if s.PerTask {
		ranks, ranksErr := h.ranksUsed(j)
		u.Ranks, err = ranks, errors.Join(err, ranksErr)
	}
	if u.CPUs == "" { // begin did not run here
		err = errors.Join(err, h.placeOf(j, u))
	}
	return u, counters, err
}

// settleMem makes the best of a job that nobody has sampled until its end. Before that, a peak with page cache must not
// become the job's: reports keep the greatest value.
func settleMem(u *hostapi.HostUsage) {
	if u.MemBytes == nil && u.CgroupPeakBytes != nil {
		u.MemBytes, u.MemSource = u.CgroupPeakBytes, memCgroupPeak
	}
}

// placeOf reads which cpus and NUMA nodes the job may use.
func (h *hook) placeOf(j *cgroup.Job, u *hostapi.HostUsage) error {
	l, err := j.Limits("cpuset")
	if errors.Is(err, cgroup.ErrNotFound) {
		return nil
	}
	if err == nil && l.CPUs.IsEmpty() {
		if l.CPUs, err = h.tree.CPUs(); err == nil {
			l.Mems, err = h.tree.Mems()
		}
	}
	u.CPUs, u.Mems = l.CPUs.String(), l.Mems.String()
	if errors.Is(err, cgroup.ErrUnsupported) { // no cpusets here
		return nil
	}
	return err
}

// pressure is nil where the kernel counts none.
func pressure(u cgroup.Usage) *hostapi.Pressure {
	p := hostapi.Pressure{
		CPUSome: seconds(u.CPUSome), MemorySome: seconds(u.MemorySome), MemoryFull: seconds(u.MemoryFull),
		IOSome: seconds(u.IOSome), IOFull: seconds(u.IOFull),
	}
	if p == (hostapi.Pressure{}) {
		return nil
	}
	return &p
}

func seconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	s := d.Seconds()
	return &s
}

// resourcesUsed is this host's share for MoM. walltime is MoM's own. A sister may have processes
// that were attached and none that was launched: there the job's time counts from its begin.
func resourcesUsed(u *hostapi.HostUsage, s state) hostapi.Resources {
	var wall time.Duration
	if start := cmp.Or(s.LaunchedMicros, s.BegunMicros); start != 0 {
		wall = time.Duration(sinceBoot()-start)*time.Microsecond - s.suspended()
	}
	r := usage.Resources(u, wall)
	delete(r, "walltime")
	return r
}
