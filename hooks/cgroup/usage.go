package main

import (
	"errors"
	"maps"
	"strconv"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/usage"
)

// A report's mem comes from one of these.
const (
	memSampled    = "anonymous and shared memory, sampled when use changed"
	memCgroupPeak = "cgroup peak, page cache included"
)

// measure reads what the job has used so far, for the report and as the kernel has it. The job's
// greatest memory is noted. With an error it still returns what could be read; u is nil when the
// job has no cgroup any more.
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
		Series:            h.chartOf(j).answer(),
	}
	if n := counters.OOMKills; n != nil && *n > 0 {
		t := h.told(j)
		u.OOMKills = t.killed(*n)
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
	if h.policy.Hugetlb.Enabled { // the server may not know hpmem elsewhere
		u.HugetlbPeakBytes = counters.HugetlbPeak
	}
	if u.MemBytes != nil {
		mem, markErr := h.noteMem(j, max(*u.MemBytes, markedBytes(j, heldMark)))
		u.MemBytes, u.MemSource, err = &mem, memSampled, errors.Join(err, markErr)
	}
	if s.PerTask {
		ranks, ranksErr := h.ranksUsed(j)
		u.Ranks, err = ranks, errors.Join(err, ranksErr)
	}
	if u.CPUs == "" { // the parent's
		err = errors.Join(err, h.placeOf(j, u))
	}
	return u, counters, err
}

// memMark is the extended attribute of the job's cgroup with the greatest memory, in bytes, that
// was measured for reports. A measurement may have seen, or inferred, more than the watch's next
// sample does. MoM is not told less than before, by whatever process.
const memMark = "trusted.hookhost.mem_measured"

// noteMem notes what memory of the job was measured, in bytes, and returns the greatest so far.
func (h *hook) noteMem(j *cgroup.Job, bytes int64) (int64, error) {
	h.mu.Lock() // two measurements of a job may meet
	defer h.mu.Unlock()
	marked := markedBytes(j, memMark)
	if bytes <= marked {
		return marked, nil
	}
	err := j.SetMark(memMark, strconv.AppendInt(nil, bytes, 10))
	if errors.Is(err, cgroup.ErrNotFound) {
		err = nil
	}
	return bytes, err
}

// markedBytes is the number in a mark of the job, 0 without the mark.
func markedBytes(j *cgroup.Job, mark string) int64 {
	b, err := j.Mark(mark)
	if err != nil {
		return 0
	}
	bytes, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return 0
	}
	return bytes
}

// settleMem makes the best of a job that nobody has sampled until its end. Before that, a peak with
// page cache must not become the job's: reports keep the greatest value.
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

// resourcesUsed is this host's share for MoM of a job that has run for elapsed, as the host counts.
// walltime is MoM's own.
func (p *policy) resourcesUsed(u *hostapi.HostUsage, elapsed time.Duration) hostapi.Resources {
	r := usage.Resources(u, elapsed)
	delete(r, "walltime")
	if p.Billing.ResourcesUsed {
		maps.Copy(r, usage.BillingResources(u))
	}
	return r
}
