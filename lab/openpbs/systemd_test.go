//go:build openpbs

package openpbs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

// needSystemd leaves a test of systemd's units to the guest that has them.
func needSystemd(t *testing.T) {
	t.Helper()
	if on(t, nodes[0], "[ ! -d /run/systemd/system ] || echo systemd") == "" {
		kernfstest.Elsewhere(t, "systemd: make test-vm V=bookworm-openpbs")
	}
}

// confined is what a node has of a job's confinement in v2: its limit of memory and its processes.
func (j *job) confined(node string) string {
	j.t.Helper()
	dirs := j.cgroups(node)
	if len(dirs) != 1 {
		j.t.Fatalf("cgroups of job %s: %q", j.id, dirs)
	}
	return on(j.t, node, "cd '"+dirs[0]+"' && cat memory.max && find . -name cgroup.procs -exec cat {} + | sort -n")
}

// sleepers waits until a job of alice's has started so many sleep, and returns their pids.
func (j *job) sleepers(n int) []string {
	j.t.Helper()
	var pids []string
	eventually(j.t, "programs of job "+j.id+" run", func() bool {
		pids = strings.Fields(on(j.t, nodes[0], "pgrep -u alice -x sleep || :"))
		return len(pids) == n
	})
	return pids
}

func TestServiceOfPBSHoldsMoMAndServiceOfJobsHoldsJobs(t *testing.T) {
	needSystemd(t)
	j := qsub(t, "alice", "-o where -j oe -l select=1:ncpus=1:mem=64mb:host="+nodes[0], "cat /proc/self/cgroup")
	j.finished()
	got := as(t, "alice", nodes[0], "cat where && rm where")
	if !strings.HasPrefix(got, "0::/pbs_jobs.service/") || !strings.Contains(got, "/"+j.id) {
		t.Errorf("cgroup of a process of job %s: %q", j.id, got)
	}
	if got := on(t, nodes[0], "cat /proc/$("+momPid+")/cgroup"); got != "0::/system.slice/pbs.service" {
		t.Errorf("cgroup of MoM: %q", got)
	}
	j.gone()
}

func TestJobStaysConfinedWhileSystemdReloadsAndHookhostIsRestartedAndKilled(t *testing.T) {
	needSystemd(t)
	j := qsub(t, "alice", small(nodes[0]), "sleep 1000")
	j.running()
	j.sleepers(1)
	before := j.confined(nodes[0])
	on(t, nodes[0], "systemctl daemon-reload && systemctl restart hookhost && systemctl daemon-reexec")
	killed := on(t, nodes[0], "systemctl show -P MainPID hookhost; systemctl kill -s KILL hookhost")
	eventually(t, "systemd starts hookhost again", func() bool {
		_, err := output("root", nodes[0], "hookhost jobs && [ $(systemctl show -P MainPID hookhost) != "+killed+" ]")
		return err == nil
	})
	if after := j.confined(nodes[0]); after != before {
		t.Errorf("limit and processes of job %s: %q, before %q", j.id, after, before)
	}
	j.deleted()
	if e := j.end(); e["resources_used.mem"] == "" {
		t.Errorf("accounting of job %s: %v", j.id, e)
	}
}

// MoM that starts anew ends what it finds of a job, and the server has the job run once more.
func TestJobOfARestartedServiceOfPBSRunsOnceMoreAndTheFirstRunIsGone(t *testing.T) {
	needSystemd(t)
	j := qsub(t, "alice", small(nodes[0]), "(setsid sleep 1000 &); sleep 1000")
	j.running()
	first := j.sleepers(2)
	on(t, nodes[0], "systemctl restart pbs")
	eventually(t, "job "+j.id+" runs once more", func() bool {
		out, err := output("root", nodes[0], "qstat -f "+j.id)
		return err == nil && strings.Contains(out, "run_count = 2") && strings.Contains(out, "substate = 42")
	})
	again := j.sleepers(2)
	inCgroup := strings.Fields(j.confined(nodes[0]))
	for _, pid := range again {
		if slices.Contains(first, pid) {
			t.Errorf("process %s of job %s outlived its first run", pid, j.id)
		}
		if !slices.Contains(inCgroup, pid) {
			t.Errorf("process %s of job %s is not in its cgroup, which has %q", pid, j.id, inCgroup)
		}
	}
	j.deleted()
	if got := on(t, nodes[0], "pgrep -u alice -x sleep || :"); got != "" {
		t.Errorf("processes of job %s that was deleted: %q", j.id, got)
	}
}
