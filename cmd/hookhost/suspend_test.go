package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// background is a `hookhost run` that goes on beside the test.
type background struct {
	n      *node
	stdin  io.Closer
	said   string // the file that its standard output goes to
	stderr bytes.Buffer
	pid    int
	wait   func() error
}

// start runs a command as a job and waits until its program has said something.
func (n *node) start(args ...string) *background {
	n.t.Helper()
	return n.startCommand(n.command(args...))
}

func (n *node) startCommand(cmd *exec.Cmd) *background {
	n.t.Helper()
	b := &background{n: n}
	said, err := os.CreateTemp(n.dir, "said")
	must.NoError(n.t, err)
	cmd.Stdout, cmd.Stderr = said, &b.stderr
	if b.stdin, err = cmd.StdinPipe(); err != nil {
		n.t.Fatal(err)
	}
	must.NoError(n.t, cmd.Start())
	b.pid, b.wait, b.said = cmd.Process.Pid, cmd.Wait, said.Name()
	n.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	must.Eventually(n.t, strings.Join(cmd.Args[1:], " ")+" says something", func() bool {
		info, err := said.Stat()
		return err == nil && info.Size() > 0
	})
	return b
}

// output is what the job has said so far.
func (b *background) output() string {
	b.n.t.Helper()
	text, err := os.ReadFile(b.said)
	must.NoError(b.n.t, err)
	return string(text)
}

// await waits until the job has said text.
func (b *background) await(text string) {
	b.n.t.Helper()
	must.Eventually(b.n.t, "the job says "+text, func() bool { return strings.Contains(b.output(), text) })
}

func (b *background) signal(sig syscall.Signal) {
	b.n.t.Helper()
	must.NoError(b.n.t, syscall.Kill(b.pid, sig))
}

// suspend sends ^Z and waits until the run has stopped itself, as a shell does: a SIGCONT before
// that would be lost.
func (b *background) suspend() {
	b.n.t.Helper()
	b.signal(syscall.SIGTSTP)
	must.Eventually(b.n.t, "the run stops", func() bool { return state(b.pid) == "T" })
}

// report waits for the end of the run, which has to be a success.
func (b *background) report(t *testing.T) usageReport {
	t.Helper()
	if err := b.wait(); err != nil {
		t.Fatalf("%v: %s", err, b.stderr.String())
	}
	return result{stderr: b.stderr.String()}.report(t)
}

// send sends an event to the daemon.
func (n *node) send(name, text string) result {
	n.t.Helper()
	cmd := n.command("event", name)
	cmd.Stdin = strings.NewReader(text)
	return n.finish(cmd)
}

// listedJob is a job of `hookhost jobs --json`, as far as tests look at it.
type listedJob struct {
	Job     struct{ ID string }
	Phase   string
	Elapsed float64  `json:"elapsed_seconds"`
	Limit   float64  `json:"walltime_limit_seconds"`
	Left    *float64 `json:"walltime_left_seconds"`
}

// listed returns a job of `hookhost jobs`, an empty one when it is not there.
func (n *node) listed(id string) (found listedJob) {
	n.t.Helper()
	var list struct{ Jobs []listedJob }
	out, err := n.command("jobs", "--json").Output()
	must.NoError(n.t, err)
	must.NoError(n.t, json.Unmarshal(out, &list))
	for _, j := range list.Jobs {
		if j.Job.ID == id {
			return j
		}
	}
	return listedJob{}
}

// state is the state of a job in `hookhost jobs`, "" when it is not there.
func (n *node) state(id string) string {
	n.t.Helper()
	return n.listed(id).Phase
}

// frozen tells what the kernel says of a job, in whichever freezer it is.
func (n *node) frozen(id string) bool {
	n.t.Helper()
	for file, want := range map[string]string{"cgroup.events": "frozen 1", "freezer.state": "FROZEN"} {
		for _, pattern := range []string{"/sys/fs/cgroup/*/", "/sys/fs/cgroup/"} {
			files, _ := filepath.Glob(pattern + n.prefix + ".service/job*/" + id + "/" + file)
			for _, f := range files {
				if b, _ := os.ReadFile(f); strings.Contains(string(b), want) {
					return true
				}
			}
		}
	}
	return false
}

// ticks reads a file in which a job's program counts.
func (n *node) ticks(name string) int {
	n.t.Helper()
	b, err := os.ReadFile(n.path(name))
	must.NoError(n.t, err)
	return len(b)
}

// TestSuspendedRunStandsAndItsTimeIsNotCounted stops a job by ^Z of its `hookhost run`. Every
// process of it stands, also the one that left its session and takes its own SIGCONT. The job's
// cpus are another job's meanwhile. Then the job goes on, and that time is not its walltime.
func TestSuspendedRunStandsAndItsTimeIsNotCounted(t *testing.T) {
	n := newNode(t)
	// The daemon of the job continues the leader as often as it can, which a SIGSTOP alone
	// would not withstand.
	script := fmt.Sprintf(`setsid sh -c 'while kill -CONT $0 2>/dev/null; do printf x >> %s; sleep 0.02; done' $$ &
echo started
while ! [ -e %s ]; do printf x >> %s; sleep 0.05; done
exit 0`, n.path("daemon"), n.path("enough"), n.path("leader"))
	cpus := strconv.Itoa(online(t))
	began := time.Now()
	job := n.start("run", "--job", "71.x", "-l", "ncpus="+cpus, "--report=json", "--", "sh", "-c", script)
	if r := n.hookhost("run", "--report=none", "-l", "ncpus="+cpus, "--", "true"); r.status != 125 {
		t.Errorf("a job beside one that has all cpus: status %d", r.status)
	}
	must.Eventually(t, "both run", func() bool { return exists(n.path("daemon")) && exists(n.path("leader")) })
	job.suspend()
	if frozen, state := n.frozen("71.x"), n.state("71.x"); !frozen || state != "suspended" {
		t.Errorf("frozen %v, state %q", frozen, state)
	}
	stopped := time.Now()
	daemon, leader := n.ticks("daemon"), n.ticks("leader")
	if r := n.hookhost("run", "--report=none", "-l", "ncpus="+cpus, "--", "true"); r.status != 0 {
		t.Errorf("a job in place of a suspended one: status %d", r.status)
	}
	time.Sleep(time.Until(stopped.Add(2 * time.Second)))
	if d, l := n.ticks("daemon"), n.ticks("leader"); d != daemon || l != leader {
		t.Errorf("the daemon ran from %d to %d, the leader from %d to %d", daemon, d, leader, l)
	}
	stood := time.Since(stopped)
	job.signal(syscall.SIGCONT)
	must.Eventually(t, "the job runs on",
		func() bool { return n.ticks("leader") > leader && n.ticks("daemon") > daemon })
	must.Eventually(t, "it is listed as running", func() bool { return n.state("71.x") == "running" })
	must.NoError(t, os.WriteFile(n.path("enough"), nil, 0o600))
	rep := job.report(t)
	ran := time.Since(began) - stood
	var hours, minutes, seconds int
	_, err := fmt.Sscanf(fmt.Sprint(rep.ResourcesUsed["walltime"]), "%d:%d:%d", &hours, &minutes, &seconds)
	if wall := time.Duration(3600*hours+60*minutes+seconds) * time.Second; err != nil ||
		wall > ran+500*time.Millisecond {
		t.Errorf("walltime %v, %v; it ran for %v and stood for %v", rep.ResourcesUsed["walltime"], err, ran, stood)
	}
	if !strings.Contains(strings.Join(rep.Notes, "\n"), "suspended for ") {
		t.Errorf("notes %q", rep.Notes)
	}
}

// Events of pbs_mom do the same, and may be repeated.
func TestSuspendByEvent(t *testing.T) {
	n := newNode(t)
	n.serve()
	job := n.start("run", "--job", "73.x", "--report=json", "--", "sh", "-c", "echo started; read x; exit 0")
	for _, step := range []struct {
		event, state string
		frozen       bool
	}{
		{"execjob_postsuspend", "suspended", true}, {"execjob_postsuspend", "suspended", true},
		{"execjob_preresume", "running", false}, {"execjob_preresume", "running", false},
	} {
		if r := n.send(step.event, `{"job": {"id": "73.x"}}`); r.status != 0 {
			t.Errorf("%s: %+v", step.event, r)
		}
		if frozen, state := n.frozen("73.x"), n.state("73.x"); frozen != step.frozen || state != step.state {
			t.Errorf("%s: frozen %v, state %q", step.event, frozen, state)
		}
	}
	job.stdin.Close()
	job.report(t)
}

// A daemon that is killed over a suspension or a resumption leaves a job in one of the two states.
// The next daemon knows in which: its word and the kernel's state agree.
func TestDaemonKilledOverSuspension(t *testing.T) {
	must.BesideOthers(t)
	n := newNode(t)
	d := n.serve()
	job := n.start("run", "--job", "75.x", "--report=json", "--", "sh", "-c",
		"for i in $(seq 200); do sleep 300 & done; echo started; read x; kill $(jobs -p); exit 0")
	for _, name := range []string{"execjob_postsuspend", "execjob_preresume"} {
		if r := n.send(name, `{"job": {"id": "75.x"}}`); r.status != 0 {
			t.Fatal(r)
		}
	}
	whole := n.took("execjob_postsuspend") // the daemon is killed at some point of it, or just after
	suspended, odd := false, 0
	for round := range 20 {
		name := map[bool]string{false: "execjob_postsuspend", true: "execjob_preresume"}[suspended]
		n.hookhost("report", "75.x") // measured by the hook, which has to have started for what follows
		var conn net.Conn
		must.Eventually(t, "the daemon listens", func() (ok bool) {
			var err error
			conn, err = net.Dial("unix", n.path("run/s"))
			return err == nil
		})
		body := `{"job": {"id": "75.x"}}`
		fmt.Fprintf(conn, "POST /v1/events/%s HTTP/1.1\r\nHost: x\r\nContent-Type: "+
			"application/json\r\nContent-Length: %d\r\n\r\n%s", name, len(body), body)
		time.Sleep(whole * time.Duration(round+1) / 10)
		d.kill()
		conn.Close()
		d = n.serve()
		var frozen bool
		must.Eventually(t, fmt.Sprintf("round %d, %s: the daemon and the kernel agree", round, name), func() bool {
			state := n.state("75.x")
			frozen = n.frozen("75.x")
			return state == map[bool]string{false: "running", true: "suspended"}[frozen]
		})
		if frozen != suspended {
			odd++
		}
		suspended = frozen
	}
	if t.Logf("%d of 20 events had an effect, %d of them unknown to the dead host", odd,
		n.logged("its host died over an event")); odd == 0 {
		t.Error("no event came as far as the cgroup")
	}
	must.Eventually(t, "the job runs", func() bool {
		n.send("execjob_preresume", `{"job": {"id": "75.x"}}`)
		return n.state("75.x") == "running" && !n.frozen("75.x")
	})
	job.stdin.Close()
	job.report(t)
}

// A suspension that came as events is no walltime of `hookhost run` either. The job goes on after
// it, or its program is killed in it.
func TestSuspensionByEventIsNoWalltime(t *testing.T) {
	must.BesideOthers(t)
	walltime := func(rep usageReport) string { return fmt.Sprint(rep.ResourcesUsed["walltime"]) }
	const stood = 3 * time.Second
	t.Run("it goes on", func(t *testing.T) {
		n := newNode(t)
		n.serve()
		began := time.Now()
		job := n.start("run", "--job", "76.x", "--report=json", "--", "sh", "-c", "echo started; read x; exit 0")
		for _, name := range []string{"execjob_postsuspend", "execjob_preresume"} {
			if r := n.send(name, `{"job": {"id": "76.x"}}`); r.status != 0 {
				t.Fatalf("%s: %+v", name, r)
			}
			if name == "execjob_postsuspend" {
				time.Sleep(stood)
			}
		}
		job.stdin.Close()
		rep := job.report(t)
		if most := time.Since(began) - stood; seconds(t, walltime(rep)) > most+time.Second/2 {
			t.Errorf("walltime %s, of which %v do not count; want %v at most", walltime(rep), stood, most)
		}
	})
	t.Run("killed in it", func(t *testing.T) {
		kernfstest.NeedV2(t) // what the v1 freezer holds takes no SIGKILL before it is thawed
		n := newNode(t)
		n.serve()
		began := time.Now()
		job := n.start("run", "--job", "77.x", "--report=json", "--", "sh", "-c", "echo $$ > "+n.path("leader")+
			"; echo started; sleep 300; exit 0")
		n.send("execjob_postsuspend", `{"job": {"id": "77.x"}}`)
		time.Sleep(stood)
		b, err := os.ReadFile(n.path("leader"))
		must.NoError(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		must.NoError(t, err)
		syscall.Kill(pid, syscall.SIGKILL)
		job.wait() // 137
		rep := result{stderr: job.stderr.String()}.report(t)
		if most := time.Since(began) - stood; seconds(t, walltime(rep)) > most+time.Second/2 {
			t.Errorf("walltime %s, of which %v do not count; want %v at most", walltime(rep), stood, most)
		}
	})
}

// logged counts a text in what the daemons have logged.
func (n *node) logged(text string) int {
	n.t.Helper()
	b, err := os.ReadFile(n.path("log"))
	must.NoError(n.t, err)
	return strings.Count(string(b), text)
}

// seconds reads a duration as PBS writes it.
func seconds(t *testing.T, text string) time.Duration {
	t.Helper()
	var h, m, s int
	if _, err := fmt.Sscanf(text, "%d:%d:%d", &h, &m, &s); err != nil {
		t.Fatalf("duration %q: %v", text, err)
	}
	return time.Duration(3600*h+60*m+s) * time.Second
}

func online(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/sys/fs/cgroup/cpuset/cpuset.cpus")
	if err != nil {
		b, err = os.ReadFile("/sys/fs/cgroup/cpuset.cpus.effective")
	}
	must.NoError(t, err)
	return len(listOf(strings.TrimSpace(string(b))))
}
