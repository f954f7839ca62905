package main_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// The clock starts at the launch event, the program somewhat later. Reports and `hookhost jobs` go
// by the event. Nothing may come early. The bound for late is for a machine with more to do, or an
// emulated one; docs/performance.md has an idle machine's. The start of a report is in whole
// milliseconds, and two clocks are read one after the other.
const early = 20 * time.Millisecond

var late = func() time.Duration {
	if inGuest() { // a daemon takes seconds to start its hooks in one emulated thread
		return 30 * time.Second
	}
	return 5 * time.Second
}()

// enough is a walltime in which a test can do something to the job before it is over, in seconds.
func enough(seconds int) int {
	if inGuest() { // an emulated machine takes seconds to start anything
		return 4 * seconds
	}
	return seconds
}

// traps writes what happens to it with the time on the clock that nobody sets: "started
// 123.456789". With "stay" it does not end by SIGTERM, and has a child that has left its session
// and does the same.
const traps = `
import os, signal, sys, time
stay = "stay" in sys.argv
who = ""
def say(what):
    os.write(1, b"%s%s %.6f\n" % (who.encode(), what.encode(), time.monotonic()))
def on(number, frame):
    say(signal.Signals(number).name)
    if number == signal.SIGTERM and not stay:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
for s in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(s, on)
if stay:
    ready, there = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            who = "child-"
            say("started")
            os.write(there, b"x")
            while True: signal.pause()
        os._exit(0)
    os.wait()
    os.read(ready, 1)
say("started")
while True: signal.pause()
`

// onMonotonic is when something was that a report tells on the wall clock.
func onMonotonic(t testing.TB, wall time.Time) time.Duration {
	t.Helper()
	return monotonic() - time.Since(wall)
}

// said returns the times in what traps wrote; a thing that it wrote twice is a failure.
func said(t testing.TB, text string) map[string]time.Duration {
	t.Helper()
	times := map[string]time.Duration{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		what, at, _ := strings.Cut(lines.Text(), " ")
		seconds, err := strconv.ParseFloat(at, 64)
		if err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		if _, twice := times[what]; twice {
			t.Errorf("%s twice in %q", what, text)
		}
		times[what] = time.Duration(seconds * float64(time.Second))
	}
	return times
}

// within checks a time against the one that it should be.
func within(t testing.TB, what string, got, want time.Duration) {
	t.Helper()
	t.Logf("%s: %v after its time", what, got-want)
	if got < want-early || got > want+late {
		t.Errorf("%s came %v after its time", what, got-want)
	}
}

// tellsEnd checks that everybody is told what ended the job and by which signal, the job's stderr
// once. The result is how long the job had run then, in seconds.
func tellsEnd(t testing.TB, stderr string, rep usageReport, what string, limit int, signal string) (used int) {
	t.Helper()
	text := fmt.Sprintf(`%s (\d+) exceeded limit %d`, what, limit)
	line := regexp.MustCompile(`(?m)^=>> PBS: job killed: ` + text + `$`)
	got := line.FindAllStringSubmatch(stderr, -1)
	if len(got) != 1 {
		t.Errorf("stderr %q has %s %d times", stderr, line, len(got))
		return 0
	}
	if note := regexp.MustCompile(text + `: ` + signal); !note.MatchString(strings.Join(rep.Notes, "\n")) {
		t.Errorf("notes %q have no %s", rep.Notes, note)
	}
	for host := range rep.Hosts {
		if want := "job killed: " + what; !strings.HasPrefix(rep.DiagMessages[host], want) {
			t.Errorf("diag_messages %v, want %q", rep.DiagMessages, want)
		}
	}
	used, _ = strconv.Atoi(got[0][1])
	return used
}

// A warning, the end, and both in time.
func TestWalltimeWarnsAndEndsTheJob(t *testing.T) {
	must.BesideOthers(t)
	n := newNode(t)
	limit, before := enough(6), enough(2) // its program takes a while to start
	r := n.hookhost("run", "--job", "79.x", "-l", fmt.Sprint("walltime=", limit), "-l",
		fmt.Sprint("walltime_signal=USR1@", before),
		"--report=json", "--", "python3", "-c", traps)
	rep, times := r.report(t), said(t, r.stdout)
	if r.status != 143 || rep.ExitStatus == nil || *rep.ExitStatus != 256+15 {
		t.Errorf("status %d, in the report %v; want 143 and PBS's 271", r.status, rep.ExitStatus)
	}
	launched := onMonotonic(t, rep.Start)
	if len(times) != 3 {
		t.Fatalf("the program tells %v", times)
	}
	within(t, "SIGUSR1", times["SIGUSR1"], launched+time.Duration(limit-before)*time.Second)
	within(t, "SIGTERM", times["SIGTERM"], launched+time.Duration(limit)*time.Second)
	tellsEnd(t, r.stderr, rep, "walltime", limit, "SIGTERM")
	if warned := regexp.MustCompile(fmt.Sprintf(`(?m)^=>> PBS: walltime: 00:00:0\d left of 00:00:%02d$`,
		limit)); len(warned.FindAllString(r.stderr, -1)) != 1 {
		t.Errorf("stderr %q has not one %s", r.stderr, warned)
	}
	text := strings.Join(strings.Fields(n.hookhost("report", rep.Job).stdout), " ") // without line breaks
	if !strings.Contains(text, "Outcome walltime exceeded: it was ended after ") ||
		!strings.Contains(text, "(Exit_status 271, SIGTERM)") || !strings.Contains(text, "job killed: walltime ") {
		t.Errorf("report %q", text)
	}
	if r := n.hookhost("report", "--state", "timeout"); !strings.Contains(r.stdout, "\n"+rep.Job) {
		t.Errorf("jobs that ran out of time: %q", r.stdout)
	}
}

// A program that does not end by SIGTERM ends by SIGKILL, wherever in the job it hides.
func TestWalltimeKills(t *testing.T) {
	must.BesideOthers(t)
	n := newNode(t)
	limit := enough(5)
	over := time.Duration(limit) * time.Second
	r := n.hookhost("run", "--job", "80.x", "-l", fmt.Sprint("walltime=", limit), "-l", "kill_delay=1", "--report=json",
		"--", "python3", "-c", traps, "stay")
	killed := monotonic()
	rep, times := r.report(t), said(t, r.stdout)
	if r.status != 137 || rep.ExitStatus == nil || *rep.ExitStatus != 256+9 {
		t.Errorf("status %d, in the report %v; want 137 and PBS's 265", r.status, rep.ExitStatus)
	}
	launched := onMonotonic(t, rep.Start)
	for _, who := range []string{"", "child-"} {
		if times[who+"started"] == 0 || times[who+"SIGTERM"] == 0 {
			t.Fatalf("the programs tell %v", times)
		}
		within(t, who+"SIGTERM", times[who+"SIGTERM"], launched+over)
	}
	if killed < launched+over+time.Second-early {
		t.Errorf("killed %v after the launch, before its grace of a second was over", killed-launched)
	}
	within(t, "the end", onMonotonic(t, rep.End), launched+over+time.Second)
	tellsEnd(t, r.stderr, rep, "walltime", limit, "SIGKILL after a grace of 1s")
}

// A suspended job's time stands still.
func TestWalltimeOfSuspendedJob(t *testing.T) {
	must.BesideOthers(t)
	n := newNode(t)
	const stand = 6 * time.Second
	seconds := enough(5)
	limit := time.Duration(seconds) * time.Second
	// The program counts how long it ran. A longer time between two looks is one in which it
	// stood, or a machine that is very slow.
	const count = `
import signal, sys, time
ran, last = 0.0, time.monotonic()
def end(number, frame):
    print("ran", ran, flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, end)
print("started 0", flush=True)
while True:
    time.sleep(0.02)
    now = time.monotonic()
    if now - last < 2: ran += now - last
    last = now
`
	job := n.start("run", "--job", "81.x", "-l", fmt.Sprint("walltime=", seconds), "--report=json", "--", "python3",
		"-c", count)
	before := monotonic()
	job.suspend()
	stopped := monotonic()
	if left, _ := n.left(t, "81.x"); left <= 0 || left > float64(seconds) {
		t.Errorf("%.3f seconds left of a suspended job", left)
	}
	time.Sleep(stand - (monotonic() - stopped))
	leftThen, _ := n.left(t, "81.x")
	going := monotonic()
	job.signal(syscall.SIGCONT)
	job.wait()
	rep := result{stderr: job.stderr.String()}.report(t)
	if rep.ExitStatus == nil || *rep.ExitStatus != 7 {
		t.Errorf("exit status %v, want 7", rep.ExitStatus)
	}
	launched, ended := onMonotonic(t, rep.Start), onMonotonic(t, rep.End)
	t.Logf("launched %v before it was to stop; stood for %v; %.3f s were left; ended %v after the launch",
		before-launched, going-stopped, leftThen, ended-launched)
	if ran := ended - launched - (going - stopped); ran < limit-early {
		t.Errorf("it had %v of its %v", ran, limit)
	}
	if ran := ended - launched - (going - before); ran > limit+late {
		t.Errorf("it had %v of its %v", ran, limit)
	}
	own, found := said(t, job.output())["ran"]
	if !found || own > limit+late {
		t.Errorf("by its own count it ran for %v of its %v", own, limit)
	}
	tellsEnd(t, job.stderr.String(), rep, "walltime", seconds, "SIGTERM")
}

// left returns what `hookhost jobs` says is left of a job, in seconds, and how long it has run; -1
// without a limit.
func (n *node) left(t testing.TB, id string) (left, elapsed float64) {
	t.Helper()
	job := n.listed(id)
	switch {
	case job.Phase == "":
		t.Fatalf("no job %s", id)
	case job.Left == nil:
		return -1, job.Elapsed
	}
	return *job.Left, job.Elapsed
}

// launchedAt returns a moment that the job's launch was not before, on the monotonic clock, and is
// near.
func (n *node) launchedAt(t testing.TB, id string) time.Duration {
	t.Helper()
	before := monotonic()
	_, elapsed := n.left(t, id)
	if elapsed == 0 {
		t.Fatalf("job %s has not been launched", id)
	}
	return before - time.Duration(elapsed*float64(time.Second))
}

// toKill looks for the daemon's hooks. The function that it returns kills them and the daemon, as a
// node does that runs out of memory. On a busy machine the look takes seconds, and the kill does
// not.
func (d *daemon) toKill() (killAll func()) {
	d.n.t.Helper()
	var hooks []int
	must.Eventually(d.n.t, "the hooks run", func() bool {
		hooks = nil
		children := childrenOf(d.cmd.Process.Pid)
		for _, name := range []string{"cgroup", "devices", "walltime"} {
			for _, pid := range processesNamed(filepath.Join(built, "hooks", name)) {
				if slices.Contains(children, pid) {
					hooks = append(hooks, pid)
				}
			}
		}
		return len(hooks) == 3
	})
	return func() {
		for _, pid := range hooks {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		d.kill()
	}
}

// A job whose time ran out while nobody was there is dealt with as soon as somebody is.
func TestWalltimeOverRestart(t *testing.T) {
	must.BesideOthers(t)
	n := newNode(t)
	killAll := n.serve().toKill()
	seconds := enough(9)
	limit := time.Duration(seconds) * time.Second
	job := n.start("run", "--job", "82.x", "-l", fmt.Sprint("walltime=", seconds), "--report=json", "--", "python3",
		"-c", traps)
	launched := n.launchedAt(t, "82.x")
	// Long before: a busy machine may stand still for seconds.
	time.Sleep(launched + limit - 6*time.Second - monotonic())
	must.NoError(t, syscall.Kill(job.pid, syscall.SIGSTOP)) // or it would start another daemon
	killAll()
	// The launch was a little later than launched, and whole seconds are told.
	time.Sleep(launched + limit + 2500*time.Millisecond - monotonic())
	if _, over := said(t, job.output())["SIGTERM"]; over {
		t.Error("there was a SIGTERM without a daemon")
	}
	n.serve()
	back := monotonic()
	must.NoError(t, syscall.Kill(job.pid, syscall.SIGCONT))
	job.wait()
	rep := result{stderr: job.stderr.String()}.report(t)
	if rep.ExitStatus == nil || *rep.ExitStatus != 256+15 {
		t.Errorf("exit status %v, want 271", rep.ExitStatus)
	}
	if got := said(t, job.output())["SIGTERM"]; got < launched+limit+2*time.Second || got > back+late {
		t.Errorf("SIGTERM %v after the daemon was back", got-back)
	}
	if used := tellsEnd(t, job.stderr.String(), rep, "walltime", seconds, "SIGTERM"); used < seconds+2 {
		t.Errorf("it tells of %d seconds, want %d at least", used, seconds+2)
	}
	if late := regexp.MustCompile(`was ended \d+\.\d seconds later than was due, because hookhost did not run then`); !late.MatchString(strings.Join(rep.Notes, "\n")) {
		t.Errorf("notes %q have no %s", rep.Notes, late)
	}
}

// Somebody sets the clock, to a day later and to a day before: to a job's time that is nothing.
// The daemon is killed over it, so that what is in the job's record counts as well.
func TestWalltimeWhenTheClockIsSet(t *testing.T) {
	if !inGuest() {
		kernfstest.Elsewhere(t, "no guest of the laboratory: this machine's clock is not the test's to set")
	}
	for _, by := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("by %v, restart %v", by, restarts), func(t *testing.T) {
				n := newNode(t)
				d := n.serve()
				job := n.start("run", "--job", "83.x", "-l", "walltime=20", "-l", "walltime_signal=USR1@8",
					"--report=json", "--", "python3", "-c", traps)
				launched := n.launchedAt(t, "83.x")
				wall, mono := time.Now().Round(0), monotonic()
				set := func(to time.Time) {
					ts := unix.NsecToTimespec(to.UnixNano())
					must.NoError(t, unix.ClockSettime(unix.CLOCK_REALTIME, &ts))
				}
				back := func() { set(wall.Add(monotonic() - mono)) }
				defer back()
				set(wall.Add(by))
				if restarts {
					d.toKill()()
					n.serve()
				}
				job.await("SIGUSR1")
				if left, elapsed := n.left(t, "83.x"); left+elapsed < 19.9 || left+elapsed > 20.1 || left > 8 {
					t.Errorf("%.3f s have passed, %.3f s are left", elapsed, left)
				}
				job.await("SIGTERM")
				back()
				job.wait()
				times := said(t, job.output())
				within(t, "SIGUSR1", times["SIGUSR1"], launched+12*time.Second)
				within(t, "SIGTERM", times["SIGTERM"], launched+20*time.Second)
				rep := result{stderr: job.stderr.String()}.report(t)
				if used := seconds(t, fmt.Sprint(rep.ResourcesUsed["walltime"])); used < 19*time.Second ||
					used > 20*time.Second+late {
					t.Errorf("walltime %v", used)
				}
			})
		}
	}
}

// The limit in force is the one that the server has altered the job to.
func TestWalltimeIsAltered(t *testing.T) {
	must.BesideOthers(t)
	n := newNode(t, "[host]\nnode = \"n1\"")
	n.serve()
	seconds := enough(6)
	job := n.start("run", "--job", "84.x", "-l", "select=1:ncpus=1:mem=64mb", "-l", fmt.Sprint("walltime=", seconds),
		"--report=json", "--", "python3", "-c", traps)
	alter := func(walltime string) {
		t.Helper()
		if r := n.send("execjob_resize", fmt.Sprintf(`{"job": {"id": "84.x", "exec_vnode": "(n1:ncpus=1:mem=65536kb)",
			"resource_list": {"ncpus": "1", "mem": "64mb", "walltime": %q}}}`, walltime)); r.status != 0 {
			t.Fatal(r)
		}
	}
	alter("00:10:00")
	launched := n.launchedAt(t, "84.x")
	if left, _ := n.left(t, "84.x"); left < 300 || left > 600 {
		t.Errorf("%.3f s are left of ten minutes", left)
	}
	time.Sleep(launched + time.Duration(seconds+1)*time.Second - monotonic())
	if _, over := said(t, job.output())["SIGTERM"]; over {
		t.Error("the job was ended at the limit that it had before")
	}
	at := monotonic()
	alter("2")
	job.wait()
	if got := said(t, job.output())["SIGTERM"]; got < at || got > at+late {
		t.Errorf("SIGTERM %v after the limit was altered to what is over already", got-at)
	}
	tellsEnd(t, job.stderr.String(), result{stderr: job.stderr.String()}.report(t), "walltime", 2, "SIGTERM")
}

// A soft limit ends nothing, a node's own maximum everything; what asks for no time has none.
func TestWalltimeLimits(t *testing.T) {
	must.BesideOthers(t)
	t.Run("soft", func(t *testing.T) {
		n := newNode(t)
		if r := n.hookhost("run", "--job", "85.x", "--report=none", "-l", "soft_walltime=1", "-l", "min_walltime=1",
			"--", "sleep", "2.5"); r.status != 0 {
			t.Errorf("status %d, stderr %q", r.status, r.stderr)
		}
	})
	t.Run("maximum", func(t *testing.T) {
		limit := enough(2)
		n := newNode(t, fmt.Sprintf("[walltime]\nmaximum = \"%ds\"", limit))
		for _, asks := range [][]string{{"-l", "walltime=100"}, {"-l", "soft_walltime=50"}} {
			r := n.hookhost(append(append([]string{"run", "--job", "89.x", "--report=json"}, asks...), "--", "sleep",
				"60")...)
			if r.status != 143 {
				t.Errorf("%v: status %d, want 143", asks, r.status)
			}
			tellsEnd(t, r.stderr, r.report(t), "walltime", limit, "SIGTERM")
		}
		n = newNode(t, "[walltime]\nmaximum = \"1h\"")
		if r := n.hookhost("run", "--job", "89.x", "--report=none", "-l", "walltime=7200", "--",
			"true"); r.status != 0 {
			t.Errorf("a job that needs less than it asks for: %+v", r)
		}
	})
	t.Run("off", func(t *testing.T) {
		n := newNode(t, "[walltime]\nenabled = false")
		if r := n.hookhost("run", "--job", "90.x", "--report=none", "-l", "walltime=1", "--", "sleep",
			"2.5"); r.status != 0 {
			t.Errorf("status %d, stderr %q", r.status, r.stderr)
		}
	})
}

// A job is ended for its cpu time within a second of it, and never before. On a busy machine that
// may take longer, so it has five tries.
func TestCputEndsTheJobWithinASecond(t *testing.T) {
	n := newNode(t)
	most := 3.3 // it goes on until it has its SIGTERM
	if inGuest() {
		most += 2 * late.Seconds()
	}
	var used float64
	for range 5 {
		r := n.hookhost("run", "-l", "ncpus="+strconv.Itoa(min(online(t), 2)), "-l", "cput=2", "--report=json", "--",
			"sh", "-c", "while :; do :; done & while :; do :; done")
		if r.status != 143 {
			t.Errorf("status %d, want 143", r.status)
		}
		rep := r.report(t)
		tellsEnd(t, r.stderr, rep, "cput", 2, "SIGTERM")
		for _, h := range rep.Hosts {
			if h.CPUTSeconds == nil {
				t.Fatal("no cput")
			}
			used = *h.CPUTSeconds
		}
		if used < 2 {
			t.Errorf("cput %.3f seconds, want 2 to 3", used)
		}
		if used <= most || t.Failed() {
			return
		}
	}
	t.Errorf("cput %.3f seconds, want 2 to 3", used)
}

// A standard error that nobody reads any more, where a warning goes, ends no job.
func TestWarningThatNobodyReads(t *testing.T) {
	must.BesideOthers(t)
	n := newNode(t)
	r, w, err := os.Pipe()
	must.NoError(t, err)
	r.Close()
	done := filepath.Join(n.dir, "done")
	cmd := n.command("run", "--job", "91.x", "--report=none", "-l", "walltime=60", "-l", "walltime_signal=@59", "--",
		"sh", "-c", "sleep 3; touch "+done)
	cmd.Stderr = w
	err = cmd.Run()
	w.Close()
	if err != nil || !exists(done) {
		t.Errorf("%v; the job has come to its end: %v", err, exists(done))
	}
}
