package main

import (
	"errors"
	"maps"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/usage"
)

// The possible sources of mem in a report.
const (
	memSampled    = "anonymous and shared memory, sampled"
	memCgroupPeak = "cgroup peak, page cache included"
)

// measure reads the job's usage so far, both for the report and as the kernel's counters. If it
// fails, it still returns everything that could be read. u is nil if the job no longer has a
// cgroup.
func (h *hook) measure(j *cgroup.Job, s state) (u *hostapi.HostUsage, counters cgroup.Usage, err error) {
	counters, err = j.Usage()
	if errors.Is(err, cgroup.ErrNotFound) {
		return nil, counters, nil
	}
	attached, _ := j.Attached()
	u = &hostapi.HostUsage{
		NCPUs:             s.NCPUs,
		ProcessesAttached: attached,
		CPUTSeconds:       seconds(counters.CPU),
		UserSeconds:       seconds(counters.User),
		SystemSeconds:     seconds(counters.System),
		MemBytes:          counters.MemPeak,
		VmemBytes:         counters.MemSwapPeak,
		CgroupPeakBytes:   counters.CgroupPeak,
		MemLimitBytes:     counters.MemLimit,
		OOMKills:          counters.OOMKills,
		PidsPeak:          counters.PidsPeak,
		MajorFaults:       counters.MajorFaults,
		ThrottledSeconds:  seconds(counters.Throttled),
		Pressure:          pressure(counters),
	}
	if s.Limits != nil {
		u.CPUs, u.Mems = s.Limits.CPUs.String(), s.Limits.Mems.String()
	}
	if !h.policy.kernelLimitsMem() {
		u.MemLimitBytes = nil
		if s.Limits != nil {
			u.MemLimitBytes = s.Limits.Mem
		}
	}
	if h.policy.Hugetlb.Enabled { // if it is not enabled, the server may not know hpmem
		u.HugetlbPeakBytes = counters.HugetlbPeak
	}
	if u.MemBytes != nil {
		u.MemSource = memSampled
	}
	if s.PerTask {
		ranks, ranksErr := h.ranksUsed(j)
		u.Ranks, err = ranks, errors.Join(err, ranksErr)
	}
	if u.CPUs == "" { // those of the parent
		err = errors.Join(err, h.placeOf(j, u))
	}
	return u, counters, err
}

// memAtEnd determines the mem of a job that ends. seen is the greatest sample that this process
// took. The mark on the cgroup may lack it.
//
// The cgroup's peak is used for a job if no sample ever showed any memory. It is also used for a
// job that ran out of memory at its own limit, which used all it could. Reports keep the greatest
// value, and the peak includes page cache. So memAtEnd is called only at the job's end.
func memAtEnd(u *hostapi.HostUsage, counters cgroup.Usage, seen int64) {
	if seen > 0 && (u.MemBytes == nil || *u.MemBytes < seen) {
		u.MemBytes, u.MemSource = &seen, memSampled
	}
	unseen := u.MemBytes == nil || *u.MemBytes == 0
	if (unseen || ranOut(counters)) && u.CgroupPeakBytes != nil {
		u.MemBytes, u.MemSource = u.CgroupPeakBytes, memCgroupPeak
	}
}

// ranOut reports whether the kernel killed processes of a job that had reached its own limit.
// Otherwise the node or all jobs together had run out of memory. v2 counts that. On v1 the peak has
// to reach the limit, which page cache can do as well: a counter of failures stays 0 on Linux 6.18.
func ranOut(u cgroup.Usage) bool {
	if u.OOMKills == nil || *u.OOMKills == 0 {
		return false
	}
	if u.OwnOOM != nil {
		return *u.OwnOOM > 0
	}
	reached := func(peak, limit *int64) bool { return peak != nil && limit != nil && *peak >= *limit-largestCharge }
	return reached(u.CgroupPeak, u.MemLimit) || reached(u.MemSwapPeak, u.MemSwapLimit)
}

// largestCharge bounds the memory left below a limit when the kernel kills: eight pages of 64 KiB
// (PAGE_ALLOC_COSTLY_ORDER of include/linux/mmzone.h). Larger allocations fail without a kill.
const largestCharge = 512 << 10

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

// pressure converts the job's pressure for the report. It returns nil if the kernel does not
// measure pressure.
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

// resourcesUsed returns this host's share of the usage of a job that has run for elapsed, for MoM.
// MoM itself counts walltime.
func (p *policy) resourcesUsed(u *hostapi.HostUsage, elapsed time.Duration) hostapi.Resources {
	r := usage.Resources(u, elapsed)
	delete(r, "walltime")
	if p.Billing.ResourcesUsed {
		maps.Copy(r, usage.BillingResources(u))
	}
	return r
}
