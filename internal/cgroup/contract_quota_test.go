package cgroup

import (
	"math"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// testQuota: Quota returns the lowest quota above the jobs, and a job within that quota can be
// created.
func testQuota(t *testing.T, w world) {
	tree := w.tree(t)
	h := tree.with("cpu")
	if cpus, limited, err := tree.Quota(); limited || err != nil {
		t.Fatalf("without a quota: %v, %v, %v", cpus, limited, err)
	}
	if h == nil {
		return
	}
	must.NoError(t, tree.Prepare())
	unit, err := h.mount.Sub(h.unit)
	must.NoError(t, err)
	set := func(quota, period string) {
		t.Helper()
		if h.v2 {
			err = unit.Write("cpu.max", quota+" "+period)
		} else if err = unit.Write("cpu.cfs_period_us", period); err == nil {
			err = unit.Write("cpu.cfs_quota_us", quota)
		}
		must.NoError(t, err)
	}
	set("33333", "100000")
	t.Cleanup(func() { // other tests use the same parent
		if h.v2 {
			unit.Write("cpu.max", "max")
		} else {
			unit.Write("cpu.cfs_quota_us", "-1")
		}
	})
	cpus, limited, err := tree.Quota()
	if !limited || err != nil || math.Abs(cpus-0.33333) > 1e-9 {
		t.Fatalf("%v, %v, %v, want a third of a cpu", cpus, limited, err)
	}
	period := 70 * time.Millisecond
	quota := time.Duration(float64(period) * cpus).Truncate(time.Microsecond)
	newJob(t, tree, testJob, Limits{CPUShares: 1024, Period: period, Quota: quota})
}
