package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// crowd is a user with many connections to the daemon. On each he asks that the leader of a
// session with so many members be attached, and again when he was answered. He ends when the
// leader or the daemon has ended. Then he writes when he was answered, and what. With 0 members he
// holds the connections, and makes new ones for those that the daemon closes.
const crowd = `
import os, select, socket, sys, time
path, count, members = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
leader = os.getpid()
for i in range(members):
    if os.fork() == 0:
        time.sleep(1000)
        os._exit(0)
if members:
    if os.fork() > 0:
        os.wait()
        time.sleep(1000)
    os.setsid() # the one that asks survives the job, which is to know nothing of it
    if os.fork() > 0:
        os._exit(0)
    while os.getppid() == os.getsid(0):
        time.sleep(0.001)
print(leader, os.getpid(), flush=True)
if members:
    sys.stdin.readline()
conns, poll, answers = {}, select.poll(), []
def ask():
    s = socket.socket(socket.AF_UNIX)
    try:
        os.kill(leader, 0)
        s.connect(path)
        if members:
            body = '{"job":"%s","pid":%s}' % (sys.argv[4], leader)
            s.sendall(("POST /v1/attach HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)).encode())
    except OSError:
        s.close()
        return
    conns[s.fileno()] = s
    poll.register(s, select.POLLIN)
for i in range(count):
    ask()
print("ready", flush=True)
while conns:
    for fd, _ in poll.poll():
        if not members:
            time.sleep(0.02)
        try:
            answers.append((time.monotonic(), conns[fd].recv(12).decode()))
        except OSError:
            pass
        poll.unregister(fd)
        conns.pop(fd).close()
        ask()
for at, what in answers:
    print("%.6f %s" % (at, what), flush=True)
print("over", flush=True)
sys.stdin.read()
`

type aCrowd struct {
	t      *testing.T
	leader int
	ended  chan time.Duration // when the leader was seen to have ended
	in     *os.File
	lines  *bufio.Reader
}

// gather starts a crowd, which ends with the test.
func gather(t *testing.T, uid uint32, args ...string) *aCrowd {
	t.Helper()
	stdin, in, err := os.Pipe()
	must.NoError(t, err)
	out, stdout, err := os.Pipe()
	must.NoError(t, err)
	cmd := exec.Command("/usr/bin/python3", append([]string{"-c", crowd}, args...)...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = "/", stdin, stdout, os.Stderr
	cmd.SysProcAttr = sessionOf(uid)
	must.NoError(t, cmd.Start(), stdin.Close(), stdout.Close())
	c := &aCrowd{t: t, leader: cmd.Process.Pid, ended: make(chan time.Duration, 1), in: in, lines: bufio.NewReader(out)}
	var leader, asker int
	line := c.line()
	if _, err := fmt.Sscan(line, &leader, &asker); err != nil || leader != c.leader {
		t.Fatal(line, err)
	}
	go func() { cmd.Wait(); c.ended <- monotonic(); close(c.ended) }()
	t.Cleanup(func() {
		in.Close()
		syscall.Kill(asker, syscall.SIGKILL) // its pipe has held it until now
		select {
		case <-c.ended:
		default:
			syscall.Kill(-leader, syscall.SIGKILL)
		}
		for range c.ended {
		}
		out.Close()
	})
	return c
}

func (c *aCrowd) line() string {
	c.t.Helper()
	line, err := c.lines.ReadString('\n')
	must.NoError(c.t, err)
	return strings.TrimSuffix(line, "\n")
}

// ask has it connect, and waits until it has.
func (c *aCrowd) ask() {
	c.t.Helper()
	fmt.Fprintln(c.in)
	if line := c.line(); line != "ready" {
		c.t.Fatal(line)
	}
}

// answers returns when it was answered, after it has asked for the last time.
func (c *aCrowd) answers() (times []time.Duration) {
	c.t.Helper()
	for {
		line := c.line()
		if line == "over" {
			return times
		}
		text, what, _ := strings.Cut(line, " ")
		seconds, err := strconv.ParseFloat(text, 64)
		must.NoError(c.t, err)
		if strings.HasSuffix(what, "200") {
			times = append(times, time.Duration(seconds*float64(time.Second)))
		}
	}
}

// between returns how many of the times lie between two others.
func between(times []time.Duration, from, to time.Duration) (n int) {
	for _, at := range times {
		if from < at && at < to {
			n++
		}
	}
	return n
}

// A user has 823 attaches wait at any time, each of which walks a session of 200. Root's preterm
// and the walltime come before them.
func TestCrowdOfAttachesHoldsUpNoEnd(t *testing.T) {
	const job = "7.node"
	attaches, members, walltime := 823, 200, enough(8)
	if late > 5*time.Second { // an emulated machine
		attaches, members = 100, 50
	}
	n := newNode(t, "[walltime]\nmom_margin = \"0s\"\nsignals = []")
	n.serve()
	n.open()
	c := gather(t, ownerUID, n.path("run/s"), strconv.Itoa(attaches), strconv.Itoa(members), job)
	send := func(event, more string) {
		t.Helper()
		resources := fmt.Sprintf(`"ncpus":1,"mem":"1500mb","walltime":"%d"`, walltime)
		if r := n.eventOf(event, job, resources, more); r.status != 0 {
			t.Fatalf("%s was rejected", event)
		}
	}
	send("execjob_begin", "")
	t.Cleanup(func() { n.event("execjob_end", job, "") })
	send("execjob_launch", fmt.Sprintf(`,"pid":%d,"progname":"sh"`, c.leader))
	due := monotonic() + time.Duration(walltime)*time.Second
	c.ask()
	asked := monotonic()
	send("execjob_preterm", "")
	answered := monotonic()
	ended := <-c.ended
	times := c.answers()
	preterm, end := between(times, asked, answered), between(times, due, ended)
	t.Logf("%d answers; %d while preterm waited %v, %d while the end was due %v",
		len(times), preterm, answered-asked, end, ended-due)
	if preterm > attaches/2 || end > attaches/2 {
		t.Errorf("%d attaches were carried out before preterm and %d before the end", preterm, end)
	}
}

// Nine users hold all connections that they get. Root has descriptors left, and the log says so
// once.
func TestCrowdOfUsersLeavesRootDescriptors(t *testing.T) {
	n := newNode(t)
	if !exists("/usr/bin/prlimit") {
		t.Fatal("needs prlimit of util-linux")
	}
	n.serveBy(func(cmd *exec.Cmd) error {
		cmd.Path, cmd.Args = "/usr/bin/prlimit", append([]string{"prlimit", "--nofile=512:512"}, cmd.Args...)
		return cmd.Start()
	})
	must.NoError(t, os.Chmod(n.dir, 0o711))
	for i := range uint32(9) {
		gather(t, ownerUID-10-i, n.path("run/s"), "100", "0").ask()
	}
	began := time.Now()
	if r := n.hookhost("jobs"); r.status != 0 {
		t.Error("root is not answered")
	}
	if r := n.hookhost("run", "--", "true"); r.status != 0 {
		t.Error("root runs no job")
	}
	if took := time.Since(began); took > 4*late {
		t.Errorf("root was answered after %v", took)
	}
	log, err := os.ReadFile(n.path("log"))
	said := strings.Count(string(log), "connections, which is the limit")
	if err != nil || said != 1 {
		t.Errorf("%d lines on refused connections: %v", said, err)
	}
}

// A daemon that is stopped takes connections and says nothing. Each client gives it up; a user's
// attach is not carried out when the daemon goes on.
func TestStoppedDaemonIsGivenUp(t *testing.T) {
	must.BesideOthers(t)
	n := newNode(t)
	d := n.serve()
	const job = "7.node"
	n.beginFor(t, job)
	must.NoError(t, d.cmd.Process.Signal(syscall.SIGSTOP))
	must.Eventually(t, "the daemon has stopped", func() bool { return state(d.cmd.Process.Pid) == "T" })
	began := time.Now()
	own := sleeper(t, ownerUID)
	results := make(chan result)
	commands := [][]string{
		{"jobs"}, {"report", job}, {"event", "execjob_preterm"}, {"run", "true"},
		{"attach", "-j", job, "-p", strconv.Itoa(own.Process.Pid)}, {"attach", "-s", "-j", job, "true"},
	}
	for _, args := range commands {
		cmd := n.command(args...)
		cmd.Stdin = strings.NewReader(`{"job":{"id":"7.node"}}`)
		if args[0] == "attach" {
			cmd.Dir = "/"
			cmd.Env = []string{"PATH=/usr/bin:/bin", "HOOKHOST_SOCKET=" + n.path("run/s"),
				"HOOKHOST_CONFIG=/nonexistent"}
			cmd.SysProcAttr = own.SysProcAttr
		}
		go func() { results <- n.finish(cmd) }()
	}
	for range commands {
		if r := <-results; r.status == 0 || !strings.Contains(r.stderr, "no sign of life in 5s") {
			t.Errorf("%+v", r)
		}
	}
	if took := time.Since(began); took > 15*time.Second+4*late {
		t.Errorf("given up after %v", took)
	}
	must.NoError(t, d.cmd.Process.Signal(syscall.SIGCONT))
	if r := n.hookhost("jobs", "--json"); r.status != 0 || !json.Valid([]byte(r.stdout)) {
		t.Errorf("afterwards: %+v", r)
	}
	if r := n.hookhost("report", job); r.status != 0 || inJob(t, own.Process.Pid, job) {
		t.Error("a process is in the job though its attach was given up")
	}
}

// A daemon ends at once though attaches wait, and the next one carries out those whose callers ask
// it.
func TestCrowdOfAttachesHoldsUpNoRestart(t *testing.T) {
	const job, attaches = "7.node", 800
	n := newNode(t)
	d := n.serve()
	n.open()
	n.sendOf(t, "execjob_begin", job)
	c := gather(t, ownerUID, n.path("run/s"), strconv.Itoa(attaches), "200", job)
	c.ask()
	own := sleeper(t, ownerUID)
	rank := n.command("attach", "-j", job, "-p", strconv.Itoa(own.Process.Pid))
	rank.Dir, rank.Env = "/", []string{"HOOKHOST_SOCKET=" + n.path("run/s"), "HOOKHOST_CONFIG=/nonexistent"}
	rank.SysProcAttr = own.SysProcAttr
	must.NoError(t, rank.Start())
	from := monotonic()
	d.stop()
	took := monotonic() - from
	syscall.Kill(-c.leader, syscall.SIGKILL) // the crowd asks the next daemon for nothing
	<-c.ended
	n.serve() // before the rank gives up
	answered := between(c.answers(), from, monotonic())
	t.Logf("the daemon ended after %v; %d of %d attaches were carried out meanwhile", took, answered, attaches)
	if answered > attaches/20 {
		t.Errorf("%d of %d attaches were carried out: the daemon has waited for them", answered, attaches)
	}
	if err := rank.Wait(); err != nil || !inJob(t, own.Process.Pid, job) {
		t.Errorf("the rank that waited is not in the job: %v", err)
	}
	n.sendOf(t, "execjob_end", job) // before this daemon ends
}
