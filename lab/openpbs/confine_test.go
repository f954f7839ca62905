//go:build openpbs

package openpbs_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestJobRunsInACgroupOfItsOwnAndLeavesNone(t *testing.T) {
	wait, release := hold(t)
	j := qsub(t, "alice", "-l select=1:ncpus=1:mem=64mb", "cat /proc/self/cgroup; "+wait)
	vnode := j.running().ExecVnode
	node := strings.TrimPrefix(strings.SplitN(vnode, ":", 2)[0], "(")
	if len(j.cgroups(node)) == 0 {
		t.Errorf("%s has no cgroup of job %s", node, j.id)
	}
	release()
	j.succeeds()
	j.gone()
}

func TestUsageOfAJobReachesQstatAndAccounting(t *testing.T) {
	j := qsub(t, "alice", "-l select=1:ncpus=1:mem=256mb",
		"python3 -c 'x = bytearray(100 << 20); sum(range(20000000)); import time; time.sleep(1.5)'")
	a := j.finished()
	record := j.end()
	for _, name := range []string{"cput", "mem", "walltime", "cpupercent", "ncpus", "vmem"} {
		value, ok := a.ResourcesUsed[name]
		if !ok {
			t.Errorf("qstat has no resources_used.%s of job %s: %v", name, j.id, a.ResourcesUsed)
		}
		if got := record["resources_used."+name]; got != fmt.Sprint(value) {
			t.Errorf("resources_used.%s of job %s: %s in accounting, %v in qstat", name, j.id, got, value)
		}
	}
	var kb int
	_, err := fmt.Sscanf(fmt.Sprint(a.ResourcesUsed["mem"]), "%dkb", &kb)
	if err != nil || kb < 100<<10 || kb > 130<<10 {
		t.Errorf("resources_used.mem of a job of 100 MB: %v", a.ResourcesUsed["mem"])
	}
}
