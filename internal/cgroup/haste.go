package cgroup

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// sharesOfOneCPU is cpu.shares of a job with ncpus=1, as in pbs_cgroups (openpbs pbs_cgroups.PY,
// configure_job).
const sharesOfOneCPU = 1000

// Hasten gives a job that is being ended at least the cpu time of ncpus=1. It raises the job's
// share and lifts a quota below one cpu. Processes need cpu time to die, and thousands of them with
// ncpus=0 would wait for minutes beside a busy job. A job that already has more does not get more,
// since its programs may continue during a grace period. A missing cgroup is not an error. Hasten
// is idempotent.
//
// Apply undoes this. Kill gives a job the maximum.
func (j *Job) Hasten() error { return j.hasten(sharesOfOneCPU, 1) }

// hasten raises the job's share to at least shares. It lifts quotas below cpus, on the job and on
// the cgroups below it.
func (j *Job) hasten(shares uint64, cpus float64) error {
	d, ok := j.with("cpu")
	if !ok {
		return nil
	}
	errs := []error{d.raiseShare(shares), j.walk(d, func(d directory) error { return d.liftQuota(cpus) })}
	if err := errors.Join(slices.DeleteFunc(errs, gone)...); err != nil {
		return fmt.Errorf("cpu time for the end of job %s: %w", j.id, err)
	}
	return nil
}

// unbounded makes hasten lift every quota.
var unbounded = math.Inf(1)

// raiseShare raises cpu.shares, or cpu.weight on v2. The kernel rejects shares of a cgroup with
// cpu.idle (Linux 5.15; kernel/sched/fair.c, sched_group_set_shares).
func (d directory) raiseShare(shares uint64) error {
	if idle, err := d.Uint(cpuIdle); err == nil && idle > 0 {
		if err := d.Write(cpuIdle, "0"); err != nil {
			return err
		}
	}
	file, least := cpuShares, shares
	if d.h.v2 {
		file, least = cpuWeight, weight(shares)
	}
	now, err := d.Uint(file)
	if err != nil || now >= least {
		return err
	}
	return d.Write(file, strconv.FormatUint(least, 10))
}

// liftQuota removes a quota below cpus.
func (d directory) liftQuota(cpus float64) error {
	has, limited, err := quotaOf(d.FS, ".", d.h.v2)
	if err != nil || !limited || has >= cpus {
		return err
	}
	if d.h.v2 {
		return d.Write(cpuMax, "max")
	}
	return d.Write(cpuQuota, "-1")
}
