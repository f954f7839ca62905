//go:build openpbs

package openpbs_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

var (
	chaosJobs  = flag.Int("chaos.jobs", 20, "jobs of TestEveryJobEndsOnce...")
	chaosKills = flag.Int("chaos.kills", 10, "kills of daemons and MoMs in it")
	chaosSeed  = flag.Uint64("chaos.seed", 0, "seed of its random choices; 0: of the clock")
)

// chaosScripts are jobs that have something to account for, on one node and on two.
var chaosScripts = []struct{ options, script string }{
	{"-l select=1:ncpus=1:mem=64mb", `python3 -c 'sum(range(10000000))'; sleep 2`},
	{"-l select=1:ncpus=1:mem=128mb", `python3 -c 'x = bytearray(40 << 20); import time; time.sleep(3)'`},
	{"-l select=1:ncpus=1:mem=64mb", `(setsid sleep 600 &) ; sleep 1`},
	{"-l select=2:ncpus=1:mem=64mb -l place=scatter", `/opt/pbs/bin/pbsdsh -- bash -c 'for i in {1..100000}; do :; done'; sleep 2`},
}

// victims are what is killed, and how it comes back.
var victims = []struct{ name, pid, start, log string }{
	{"daemon", daemonPid, startDaemon, daemonLog},
	{"MoM", momPid, startMoM, pbsHome + "/mom_logs/*"},
}

// TestEveryJobEndsOnceWithItsUsageWhileDaemonsAndMoMsAreKilled kills at random moments while jobs
// come and go. With -chaos.jobs=100 -chaos.kills=50 it takes some four minutes.
func TestEveryJobEndsOnceWithItsUsageWhileDaemonsAndMoMsAreKilled(t *testing.T) {
	if *here { // a slow MoM is mostly killed while it starts a job, and drain would wait for each
		kernfstest.Elsewhere(t, "as fast as a machine: make test-openpbs")
	}
	seed := *chaosSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-chaos.seed=%d", seed)
	t.Cleanup(func() { // the tests that follow have their nodes, whatever became of one here
		for _, node := range nodes {
			if run(node, "kill -0 $("+momPid+")") == nil {
				continue
			}
			log := on(t, node, "tail -n 20 "+pbsHome+"/mom_logs/*; dmesg | grep pbs_mom | tail -n 3")
			t.Logf("%s has no MoM: %s", node, log)
			if err := momIsUp(node); err != nil {
				t.Error(err)
			}
		}
	})
	random := rand.New(rand.NewPCG(seed, 0))

	var jobs []*job
	for i := range *chaosJobs {
		s := chaosScripts[i%len(chaosScripts)]
		jobs = append(jobs, qsub(t, "alice", s.options, s.script))
	}
	for range *chaosKills {
		node, victim := nodes[random.IntN(len(nodes))], victims[random.IntN(len(victims))]
		time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
		on(t, node, "kill -KILL $("+victim.pid+") || { tail -n 20 "+victim.log+" >&2; exit 1; }")
		down := time.Duration(random.IntN(3000)) * time.Millisecond
		t.Logf("%s of %s killed, down for %v", victim.name, node, down)
		time.Sleep(down)
		on(t, node, victim.start)
	}
	drain(t, time.Duration(*chaosJobs)*6*time.Second+3*time.Minute)
	for _, j := range jobs {
		checkAccounting(t, j)
	}
	for _, node := range nodes {
		eventually(t, node+" has nothing left", time.Minute, func() bool {
			left := leftOn(t, node)
			if left != "" {
				t.Logf("%s still has %s", node, strings.Join(strings.Fields(left), " "))
			}
			return left == ""
		})
		// A hook that is killed with its MoM is an error of the hook to PBS. Its fail_action holds
		// until an operator ends that.
		if state := on(t, nodes[0], "pbsnodes "+node); strings.Contains(state, "due to hook error") {
			t.Logf("%s is offline due to a hook error, and brought back", node)
			on(t, nodes[0], "pbsnodes -r "+node+"; qmgr -c 'unset node "+node+" comment'")
		}
		eventually(t, node+" is free", time.Minute, func() bool {
			return strings.Contains(on(t, nodes[0], "pbsnodes "+node), "state = free")
		})
	}
}

// drain waits until no job is left. A MoM that is killed while it starts or ends a job may leave it
// running for ever. The job has substate 41 then, or mom_logs has "no active tasks" of it. A MoM
// without hooks does so too. Such a job is run again, as its operator would.
func drain(t *testing.T, within time.Duration) {
	t.Helper()
	var left string
	since := time.Now()
	eventually(t, "all jobs have finished", within, func() bool {
		now := on(t, nodes[0], "qselect")
		if now != left {
			left, since = now, time.Now()
		}
		if now != "" && time.Since(since) > 40*time.Second {
			for _, id := range strings.Fields(now) {
				t.Logf("job %s is stuck, and run again: %s", id, on(t, nodes[0], "qstat -f "+id+" | grep substate"))
				on(t, nodes[0], "qrerun -W force "+id+" 2>/dev/null || :")
			}
			since = time.Now()
		}
		return now == ""
	})
}

// checkAccounting finds the job's end in accounting, once, with what it used.
func checkAccounting(t *testing.T, j *job) {
	t.Helper()
	ends := j.accounting("E")
	if len(ends) != 1 {
		t.Errorf("job %s: %d records E in accounting: %v", j.id, len(ends), ends)
		return
	}
	for _, name := range []string{"cput", "mem", "walltime"} {
		if ends[0]["resources_used."+name] == "" {
			t.Errorf("job %s: accounting has no resources_used.%s: %v", j.id, name, ends[0])
		}
	}
}

// leftOn is what a node still has of jobs: cgroups, records, processes of their owner.
func leftOn(t *testing.T, node string) string {
	t.Helper()
	return on(t, node, fmt.Sprintf(`find /sys/fs/cgroup -type d -path '*/pbs_jobs.service/*' -name '*.%s'
hookhost jobs --json | grep '"job"' || :
ps -u alice -o pid=,comm= | grep -v qsub || :`, nodes[0]))
}
