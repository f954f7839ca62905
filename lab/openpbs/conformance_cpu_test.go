//go:build openpbs

package openpbs_test

import (
	"strings"
	"testing"
)

func TestQuotaAndSharesOfCpuTime(t *testing.T) {
	node := nodes[0]
	for _, c := range []struct{ name, cpu, options, quota, shares string }{
		{"defaults", `"enforce_per_period_quota": true`, "ncpus=2", "206000 100000", "2000"},
		{"period and fudge factor", `"enforce_per_period_quota": true, "cfs_period_us": 200000, "cfs_quota_fudge_factor": 1.05`,
			"ncpus=2", "420000 200000", "2000"},
		{"no quota", `"enforce_per_period_quota": false`, "ncpus=1", "max 100000", "1000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			migrated(t, `{"use_hyperthreads": true, "cgroup": {"cpuset": {"enabled": true}, "cpu": {"enabled": true, `+c.cpu+`}}}`, node)
			j := qsub(t, "alice", "-l select="+c.options+":host="+node, "sleep 1000")
			j.running()
			quota := j.read(node, "cpu.cfs_quota_us", "cpu.max")
			if !strings.Contains(quota, " ") {
				quota = strings.Replace(quota, "-1", "max", 1) + " " + j.read(node, "cpu.cfs_period_us", "")
			}
			if quota != c.quota {
				t.Errorf("quota and period of a job with %s: %s, want %s", c.options, quota, c.quota)
			}
			// The weight of cgroup v2 has another scale: TestWeightFollowsShares in
			// internal/cgroup.
			if shares := j.read(node, "cpu.shares", "cpu.max"); shares != c.shares && !strings.Contains(shares, " ") {
				t.Errorf("shares of a job with %s: %s, want %s", c.options, shares, c.shares)
			}
			j.forced()
		})
	}
}
