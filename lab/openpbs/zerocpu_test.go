//go:build openpbs

package openpbs_test

import (
	"strings"
	"testing"
)

// cpuShare returns a job's shares (v1) or weight (v2), quota and period as the kernel has them.
func (j *job) cpuShare(node string) string {
	j.t.Helper()
	const files = "cpu.shares cpu.cfs_quota_us cpu.cfs_period_us cpu.max"
	for _, dir := range j.cgroups(node) {
		if got := on(j.t, node, "cd '"+dir+"' && cat "+files+" 2>/dev/null || :"); got != "" {
			return strings.Join(strings.Fields(got), " ")
		}
	}
	return ""
}

func TestZeroCPUJobHasTheQuotaOfPBSCgroups(t *testing.T) {
	node := nodes[len(nodes)-1]
	for _, tt := range []struct{ config, v1, v2 string }{
		{"", "2 20600 100000", "20600 100000"},
		{"[cpu]\nzero_cpus_quota_fraction = 1.0\nzero_cpus_shares_fraction = 0.5\ncfs_quota_fudge_factor = 1.05",
			"500 105000 100000", "105000 100000"},
		{"[cpu]\nzero_cpus_quota_fraction = 0.29\ncfs_period = \"50ms\"", "2 14934 50000", "14934 50000"},
	} {
		settings(t, tt.config, node)
		j := qsub(t, "alice", "-l select=1:ncpus=0:mem=64mb:host="+node, "exec sleep 1000")
		j.running()
		if got := j.cpuShare(node); got != tt.v1 && got != tt.v2 {
			t.Errorf("with %q: the kernel has %q, want %q, or %q in v2", tt.config, got, tt.v1, tt.v2)
		}
		j.deleted()
	}
}
