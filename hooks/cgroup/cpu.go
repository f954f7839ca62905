package main

import (
	"time"

	"github.com/hookhost/hookhost/internal/cgroup"
)

var cpuResource = resource{
	offer: func(h *hook, there *host) error {
		if !h.policy.CPU.Enabled {
			return nil
		}
		quota, limited, err := h.tree.Quota()
		if limited {
			there.quota = &quota
		}
		return err
	},
	decide: (*policy).decideShares,
}

// sharesPerCPU is cpu.shares per cpu, as in pbs_cgroups (openpbs pbs_cgroups.PY, configure_job).
const sharesPerCPU = 1000

// The kernel's minimum values (kernel/sched/core.c, sched.h).
const (
	minShares = 2
	minQuota  = time.Millisecond
)

func (p *policy) decideShares(got *assignment, h host, _ []holding) error {
	if !p.CPU.Enabled {
		return nil
	}
	l, a := &got.limits, got.ask
	l.CPUShares = max(minShares, uint64(p.CPU.ZeroCPUsSharesFraction*sharesPerCPU))
	cpus := p.CPU.ZeroCPUsQuotaFraction
	if a.NCPUs > 0 {
		l.CPUShares = uint64(a.NCPUs) * sharesPerCPU
		if !p.CPU.EnforcePerPeriodQuota {
			return nil
		}
		// Without [cpuset] nothing else limits ncpus, and the kernel does not accept arbitrary
		// quotas (MAX_BW in kernel/sched/core.c).
		cpus = float64(min(a.NCPUs, max(1, h.node.Online.Len())))
	}
	l.Period = time.Duration(p.CPU.CfsPeriod)
	l.Quota = p.quota(l.Period, cpus)
	h.cutQuota(l)
	return nil
}

// quota returns the cpu time that cpus may use in a period, in whole microseconds. It calculates
// like pbs_cgroups (openpbs pbs_cgroups.PY, set_limit of ncpus).
func (p *policy) quota(period time.Duration, cpus float64) time.Duration {
	us := float64(period.Microseconds()) * cpus * p.CPU.CfsQuotaFudgeFactor
	return max(minQuota, time.Duration(us)*time.Microsecond)
}

// cutQuota limits a job's quota to the quota of all jobs together. v1 accepts no larger one, and
// begin would fail.
func (h host) cutQuota(l *cgroup.Limits) {
	if h.quota == nil {
		return
	}
	if most := time.Duration(float64(l.Period) * *h.quota).Truncate(time.Microsecond); most < l.Quota {
		l.Quota = max(minQuota, most)
	}
}
