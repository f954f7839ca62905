//go:build openpbs

package openpbs_test

import (
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

var (
	chaosFor     = flag.Duration("chaos.for", 30*time.Second, "how long TestChaos... goes on, without its end")
	chaosSeed    = flag.Uint64("chaos.seed", 0, "seed of its plan; 0: of the clock")
	strikeServer = flag.Bool("chaos.server", false, "the server is restarted as well")
)

// chaosScripts are jobs that have something to account for, on one node and on two.
var chaosScripts = []struct{ options, script string }{
	{"-l select=1:ncpus=1:mem=64mb", `python3 -c 'sum(range(10000000))'; sleep 2`},
	{"-l select=1:ncpus=1:mem=128mb", `python3 -c 'x = bytearray(40 << 20); import time; time.sleep(3)'`},
	{"-l select=1:ncpus=1:mem=64mb", `(setsid sleep 600 &) ; sleep 1`},
	{"-l select=1:ncpus=1:mem=64mb", `for i in $(seq 20); do (sleep 3; sleep 600) & done; sleep 5`},
	{"-l select=1:ncpus=1:mem=64mb", `python3 -c 'x = bytearray(300 << 20)'; sleep 1`},
	{"-l select=1:ncpus=1:mem=64mb", `timeout 10 python3 -c 'while True: pass'`},
	{"-l select=1:ncpus=1:mem=64mb -l walltime=3", `sleep 600`},
	{"-l select=2:ncpus=1:mem=64mb -l place=scatter",
		`/opt/pbs/bin/pbsdsh -- bash -c 'for i in {1..100000}; do :; done'; sleep 2`},
	{"-l select=2:ncpus=1:mem=128mb:mpiprocs=1 -l place=scatter",
		`run=$(command -v mpirun.openmpi); $run sleep 3`},
}

// chaosHook is a shell line that has one of the daemon's hook programs in $hook.
const chaosHook = `set -- $(pgrep -P $(` + daemonPid + `))
[ $# -gt 0 ] || exit 1; shift $((PICK % $#)); hook=$1; `

// struck is what each strike does on a node, and how that ends after a while. Processes in a pid
// namespace cannot end its first one, so that a lost node's namespaces stay.
var struck = map[string][2]string{
	"daemon killed":    {`kill -KILL $(` + daemonPid + `)`, startDaemon},
	"daemon stopped":   {`kill -STOP $(` + daemonPid + `)`, `kill -CONT $(` + daemonPid + `)`},
	"daemon restarted": {stopDaemon, startDaemon},
	"MoM killed":       {`kill -KILL $(` + momPid + `)`, startMoM(goesOn)},
	"MoM stopped":      {`kill -STOP $(` + momPid + `)`, `kill -CONT $(` + momPid + `)`},
	"hook killed":      {chaosHook + `kill -KILL $hook`, `:`},
	"hook stopped": {chaosHook + `kill -STOP $hook; echo $hook >/run/stopped`,
		`kill -CONT $(cat /run/stopped) || :`},
	"link down": {`ip link set eth0 down`, `ip link set eth0 up`},
	"node lost": {`kill -KILL -1`, `rm -f /run/sshd.pid; /usr/sbin/sshd; ` + startDaemonFirst + startMoM("")},
	chaosServer: {stopServer, startServer},
}

const serverPid = `cat ` + pbsHome + `/server_priv/server.lock`

// stopServer leaves jobs running. qterm returns before the server and its database have ended.
const stopServer = `pid=$(` + serverPid + `); qterm -t quick
while kill -0 $pid 2>/dev/null; do sleep 0.1; done`

// serverAnswers is a shell line that waits for a server that is being restarted.
const serverAnswers = `for i in $(seq 60); do qstat -B >/dev/null 2>&1 && break; sleep 0.5; done
`

// startServer fails while the database of the server before still ends.
const startServer = `for i in $(seq 360); do
	kill -0 $(` + serverPid + `) 2>/dev/null || pbs_server || :
	qstat -B >/dev/null 2>&1 && exit
	sleep 0.5
done; exit 1`

// startDaemonFirst is startDaemon in a subshell, for lines that go on.
const startDaemonFirst = "(" + startDaemon + ")\n"

// chaos is a run.
type chaos struct {
	t       *testing.T
	mu      sync.Mutex
	jobs    []*job
	forced  map[string]bool // jobs that were deleted or run again by force
	tally   map[string]int
	refused map[string]int
	calm    bool // the strikes are over, and what they have ended runs again
	// failed are the nodes where a hook was killed, alone or with its MoM.
	failed map[string]bool
	// restarts are when the server, by chaosServer, and MoMs, by their node, were restarted: each
	// from the stop to the answer.
	restarts map[string][][2]time.Time
}

// TestChaosLosesNoJobAndLeavesNothing has jobs come and go, and users and operators order them
// about. Meanwhile programs and nodes are killed, stopped and cut off. `make chaos-openpbs T=10m
// SEED=7` is a longer run.
func TestChaosLosesNoJobAndLeavesNothing(t *testing.T) {
	if *here { // a slow MoM is mostly killed while it starts a job, and drain would wait for each
		kernfstest.Elsewhere(t, "as fast as a machine: make test-openpbs")
	}
	seed := *chaosSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-chaos.seed=%d -chaos.for=%v", seed, *chaosFor)
	c := &chaos{t: t, forced: map[string]bool{}, tally: map[string]int{}, refused: map[string]int{},
		failed: map[string]bool{}, restarts: map[string][][2]time.Time{}}
	t.Cleanup(c.repair) // the tests that follow have their nodes, whatever became of one here
	t.Cleanup(c.logNodes)
	p := newChaosPlan(seed, *chaosFor, *strikeServer)
	var both sync.WaitGroup
	both.Go(func() {
		for _, s := range p.orders {
			time.Sleep(s.after)
			c.order(s)
		}
	})
	both.Go(func() {
		for _, s := range p.strikes {
			time.Sleep(s.after)
			c.strike(s)
		}
	})
	both.Wait()
	c.repair()
	c.calm = true
	c.drain(time.Duration(len(c.jobs))*6*time.Second + 3*time.Minute)
	for _, node := range nodes {
		eventually(t, node+" has nothing left", func() bool {
			c.repair()
			left := leftOn(t, node)
			if left != "" {
				t.Logf("%s still has %s", node, strings.Join(strings.Fields(left), " "))
			}
			return left == ""
		})
		eventually(t, node+" is free", func() bool {
			c.repair()
			c.bringBack()
			return strings.Contains(on(t, nodes[0], "pbsnodes "+node), "state = free")
		})
	}
	c.checkRecords()
	for _, what := range slices.Sorted(maps.Keys(c.tally)) {
		t.Logf("%-16s %3d, %d of them refused", what, c.tally[what], c.refused[what])
	}
}

func (c *chaos) count(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally[what]++
	if err != nil {
		c.refused[what]++
		c.t.Log(err)
	}
}

// order gives PBS an order. PBS may refuse it, as of a job that has ended meanwhile.
func (c *chaos) order(s chaosStep) {
	if s.what == "qsub" {
		script := chaosScripts[s.pick%len(chaosScripts)]
		line := serverAnswers + fmt.Sprintf("qsub %s <<'END OF JOB'\n%s\nEND OF JOB", script.options, script.script)
		id, err := output("alice", nodes[0], line)
		if err != nil { // a restart of the server leaves requests without an answer
			c.t.Log(err)
			id, err = output("alice", nodes[0], line)
		}
		if err == nil {
			c.jobs = append(c.jobs, &job{t: c.t, id: id})
		} else {
			c.t.Errorf("qsub: %v", err)
		}
		c.count(s.what, err)
		return
	}
	command := map[string]string{
		"qdel": "qdel", "qdel force": "qdel -W force", "qrerun": "qrerun", "qrerun force": "qrerun -W force",
		"suspend": "qsig -s suspend", "resume": "qsig -s resume", "SIGTERM": "qsig -s SIGTERM",
	}[s.what]
	states := map[string]string{"qdel": "QRS", "qdel force": "QRS", "resume": "S"}[s.what]
	if states == "" {
		states = "R"
	}
	ids, err := output("root", nodes[0], "qselect -s "+states)
	if list := strings.Fields(ids); err == nil && len(list) > 0 {
		id := list[s.pick%len(list)]
		c.forced[id] = c.forced[id] || strings.HasSuffix(s.what, "force")
		_, err = output("root", nodes[0], command+" "+id)
		c.count(s.what, err)
	}
}

// strike does harm to a node, and ends it. A program that is not there cannot be struck.
func (c *chaos) strike(s chaosStep) {
	node, lines, began := nodes[s.node], struck[s.what], time.Now()
	err := run(node, strings.ReplaceAll(lines[0], "PICK", strconv.Itoa(s.pick)))
	if s.what == "node lost" { // the line's own shell may go with it
		err = nil
	}
	c.count(s.what, err)
	c.t.Logf("%s: %s for %v: %v", node, s.what, s.down, err)
	time.Sleep(s.down)
	if err := run(node, lines[1]); err != nil {
		c.t.Logf("%s after %s: %v", node, s.what, err)
	}
	switch restart := [2]time.Time{began, time.Now()}; s.what {
	case chaosServer:
		c.restarts[chaosServer] = append(c.restarts[chaosServer], restart)
	case "MoM killed", "node lost":
		c.restarts[node] = append(c.restarts[node], restart)
		c.failed[node] = true
	case "hook killed":
		c.failed[node] = true
	}
}

// hasNoCookie is a shell line. A MoM may be killed before a job of several nodes has its cookie.
// The next one with -p dies of SIGSEGV when it polls the job's sisters, some seconds after each
// start. OpenPBS 23.06 does that without a hook, too.
const hasNoCookie = `for f in ` + pbsHome + `/mom_priv/jobs/*.JB; do
	LC_ALL=C grep -qa ')+(' "$f" && ! LC_ALL=C grep -qa cookie "$f" && exit 0
done; exit 1`

// repair has daemon and MoM run on each node. Neither may have ended since the last strike, but for
// a MoM whose job has no cookie.
func (c *chaos) repair() {
	for _, node := range nodes {
		if run(node, daemonPid) != nil {
			c.found(!c.calm, "%s has no daemon: %s", node, on(c.t, node, "tail -n 20 "+daemonLog))
			if err := run(node, startDaemon); err != nil {
				c.t.Error(err)
			}
		}
		if run(node, "kill -0 $("+momPid+")") == nil {
			continue
		}
		log := on(c.t, node, "tail -n 20 "+pbsHome+"/mom_logs/*; dmesg | grep pbs_mom | tail -n 3")
		option := goesOn
		if run(node, hasNoCookie) == nil {
			option = ""
		}
		c.found(!c.calm || option == "", "%s has no MoM: %s", node, log)
		if err := momIsUp(node, option); err != nil {
			c.t.Error(err)
		}
	}
}

// logNodes logs how a failed test leaves the nodes.
func (c *chaos) logNodes() {
	if !c.t.Failed() {
		return
	}
	for _, node := range nodes {
		state, err := output("root", nodes[0], "pbsnodes "+node)
		log, logErr := output("root", node, "tail -q -n 40 "+pbsHome+"/mom_logs/*; tail -n 40 "+daemonLog)
		c.t.Logf("%s: %v\n%s%v\n%s", node, err, state, logErr, log)
	}
}

// found logs what has become of a program or a node, which is a violation unless it may.
func (c *chaos) found(may bool, format string, args ...any) {
	if may {
		c.t.Logf(format, args...)
	} else {
		c.t.Errorf(format, args...)
	}
}

// schedulerIsStuck is a shell line. The scheduler repeats a resume that fails, within one cycle,
// without a pause, and also when the job has ended meanwhile. No job starts until the cycle is
// over. PBS comes with cycles of 20 minutes at most. A start writes more than these 12 lines.
const schedulerIsStuck = `last=$(tail -q -n 12 ` + pbsHome + `/sched_logs/*)
! grep -q Cycle <<<"$last" && grep -q 'Failed to run' <<<"$last"`

const restartScheduler = `kill -KILL $(cat ` + pbsHome + `/sched_priv/sched.lock); sleep 1; /opt/pbs/sbin/pbs_sched`

// bringBack does what an operator does. A hook that is killed, alone or with its MoM, has failed to
// PBS. Its fail_action holds until somebody ends that. A node may not be offline where no hook was
// killed.
func (c *chaos) bringBack() {
	if run(nodes[0], schedulerIsStuck) == nil {
		last, err := output("root", nodes[0], "tail -q -n 4 "+pbsHome+"/sched_logs/*; "+restartScheduler)
		c.t.Logf("the scheduler is stuck, and started anew: %s, %v", last, err)
	}
	for _, node := range nodes {
		if state := on(c.t, nodes[0], "pbsnodes "+node); strings.Contains(state, "due to hook error") {
			c.found(c.failed[node], "%s is offline due to a hook error, and brought back: %s", node,
				on(c.t, node, "grep -h hook "+pbsHome+"/mom_logs/* | tail -n 20"))
			on(c.t, nodes[0], "pbsnodes -r "+node+"; qmgr -c 'unset node "+node+" comment'")
		}
	}
}

// drain waits until no job is left. A MoM that is killed while it starts or ends a job may leave it
// running for ever, with hooks or without. Such a job is run again, as its operator would.
func (c *chaos) drain(longest time.Duration) {
	var left string
	since := time.Now()
	within(c.t, "all jobs have finished", longest, func() bool {
		c.repair()
		c.bringBack()
		on(c.t, nodes[0], "for j in $(qselect -s S); do qsig -s resume $j 2>/dev/null; done; "+
			"for j in $(qselect -s H); do qrls -h uos $j 2>/dev/null; done; :")
		now := on(c.t, nodes[0], "qselect")
		if now != left {
			left, since = now, time.Now()
		}
		if now != "" && time.Since(since) > 40*time.Second {
			for _, id := range strings.Fields(now) {
				c.unstick(id)
			}
			since = time.Now()
		}
		return now == ""
	})
}

var sessionID = regexp.MustCompile(`session_id = (\d+)`)

// unstick runs a stuck job again by force. PBS is at fault if the job has substate 41, or if MoM
// has logged "no active tasks" of it. A MoM that was down when the job's program ended waits for
// all of the program's session. Any other reason is a violation. A job that waits is run. The
// server refuses that for ever if MoM has rejected the job while it was run again by force
// (ji_discarding). Such a job is deleted.
func (c *chaos) unstick(id string) {
	state, err := output("root", nodes[0], "qstat -f "+id+" | grep -E 'job_state|substate|session_id|comment'")
	if err != nil { // it has ended meanwhile
		return
	}
	if strings.Contains(state, "job_state = Q") {
		_, err := output("root", nodes[0], "qrun "+id)
		if err != nil && strings.Contains(err.Error(), "Request invalid for state of job") {
			c.t.Logf("job %s can never run, and is deleted: %v", id, err)
			c.forced[id] = true
			on(c.t, nodes[0], "qdel -W force "+id)
		}
		return
	}
	byPBS := strings.Contains(state, "substate = 41")
	session := sessionID.FindStringSubmatch(state)
	for _, node := range nodes {
		byPBS = byPBS || run(node, "grep -q ';"+id+";.*no active tasks' "+pbsHome+"/mom_logs/*") == nil ||
			session != nil && run(node, "[ ! -e /proc/"+session[1]+" ] && pgrep -s "+session[1]) == nil
	}
	c.t.Logf("job %s is stuck, and run again: %s", id, state)
	if !byPBS {
		c.t.Errorf("job %s: no known fault of PBS: %s", id,
			on(c.t, nodes[0], "tracejob -n 2 "+id+" || :"))
	}
	on(c.t, nodes[0], "qrerun -W force "+id+" 2>/dev/null || :")
	c.forced[id] = true
}

// leftOn is what a node still has of jobs: cgroups, records and their files, processes of their
// owner.
func leftOn(t *testing.T, node string) string {
	t.Helper()
	return on(t, node, leftovers())
}

// leftovers returns shell commands that print it.
func leftovers() string {
	return fmt.Sprintf(`find /sys/fs/cgroup -type d -path '*/pbs_jobs.service/*' -name '*.%s'
hookhost jobs --json | grep '"job"' || :
find /run/hookhost/jobs /run/hookhost/aux -type f
ps -u alice -o pid=,comm= | grep -v qsub || :`, nodes[0])
}
