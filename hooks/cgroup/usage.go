package main

import (
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

// measure reads what the job has used so far. With an error it still returns what could be read; nil when
// nothing could.
func (h *hook) measure(j *cgroup.Job, s state) (*hostapi.HostUsage, error) {
	u, err := j.Usage()
	if errors.Is(err, cgroup.ErrNotFound) {
		return nil, nil
	}
	limits, lerr := j.Limits()
	cpus, mems := limits.CPUs, limits.Mems
	if cpus.IsEmpty() {
		cpus, _ = h.tree.CPUs()
		mems, _ = h.tree.Mems()
	}
	out := &hostapi.HostUsage{
		CPUs: cpus.String(), Mems: mems.String(), NCPUs: s.NCPUs, ProcessesAttached: s.Attached,
		CPUTSeconds: seconds(u.CPU), UserSeconds: seconds(u.User), SystemSeconds: seconds(u.System),
		MemBytes: u.MemPeak, VmemBytes: u.MemSwapPeak, CgroupPeakBytes: u.CgroupPeak, MemLimitBytes: limits.Mem,
		OOMKills: u.OOMKills, PidsPeak: u.PidsPeak,
	}
	switch {
	case u.MemPeak != nil:
		out.MemSource = memSampled
	case u.CgroupPeak != nil:
		out.MemBytes, out.MemSource = u.CgroupPeak, memCgroupPeak
	}
	return out, errors.Join(err, lerr)
}

func seconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	s := d.Seconds()
	return &s
}

// resourcesUsed is this host's share for MoM. walltime is MoM's own.
func resourcesUsed(u *hostapi.HostUsage, s state) hostapi.Resources {
	var wall time.Duration
	if s.LaunchedMicros != 0 {
		wall = time.Duration(sinceBoot()-s.LaunchedMicros) * time.Microsecond
	}
	r := usage.Resources(u, wall)
	delete(r, "walltime")
	return r
}
