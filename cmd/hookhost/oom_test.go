package main_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// eater is a job whose children run out of memory, one for each line that it reads, while it lives
// on. After each it prints when (CLOCK_MONOTONIC, ns) the last page was touched, which is when the
// kernel killed.
const eater = `
import mmap, os, sys, time
size = int(sys.argv[1])
clock = memoryview(mmap.mmap(-1, 8)).cast("q") # struct.pack_into would clear it first, and the kernel may kill just then
for line in sys.stdin:
    if os.fork() == 0:
        m = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for at in range(0, size, 4096):
            clock[0] = time.monotonic_ns()
            m[at] = 1
        os._exit(0)
    _, status = os.wait()
    print(clock[0], status, flush=True)
`

// perProcess has the kernel kill one process of a job, not all of it, on cgroup v2 as on v1.
const perProcess = "[memory]\noom_group = false\n"

// eating is a job of eater in the background.
type eating struct {
	t      *testing.T
	n      *node
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	killed *bufio.Scanner // lines of the program
	stderr chan line
}

// line is a line of standard error and when it came, by CLOCK_MONOTONIC.
type line struct {
	text string
	at   time.Duration
}

func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

func startEating(t *testing.T, n *node) *eating {
	t.Helper()
	// Pages of the program that the job is the first to read are charged to it. At its limit it
	// would read them again and again instead of running out of memory. So it has been run outside
	// before, in all its parts.
	rehearsal := exec.Command("python3", "-c", eater, fmt.Sprint(1<<20))
	rehearsal.Stdin = strings.NewReader("\n\n")
	if out, err := rehearsal.CombinedOutput(); err != nil {
		t.Fatal(string(out), err)
	}
	e := &eating{t: t, n: n, stderr: make(chan line, 1024)}
	e.cmd = n.command("run", "--report=none", "--job", "1.oom", "-l", "select=1:ncpus=1:mem=64mb", "--", "python3",
		"-c", eater, fmt.Sprint(300<<20))
	var err error
	if e.stdin, err = e.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := e.cmd.StdoutPipe()
	must.NoError(t, err)
	stderr, err := e.cmd.StderrPipe()
	must.NoError(t, err)
	must.NoError(t, e.cmd.Start())
	e.killed = bufio.NewScanner(stdout)
	go func() {
		defer close(e.stderr)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			e.stderr <- line{lines.Text(), monotonic()}
		}
	}()
	return e
}

// kill has the kernel kill a process of the job and returns when it did.
func (e *eating) kill() time.Duration {
	e.t.Helper()
	io.WriteString(e.stdin, "\n")
	if !e.killed.Scan() {
		e.t.Fatalf("the job has ended: %v", e.killed.Err())
	}
	var at int64
	var status int
	if _, err := fmt.Sscan(e.killed.Text(), &at, &status); err != nil ||
		syscall.WaitStatus(status).Signal() != syscall.SIGKILL {
		e.t.Fatalf("the job says %q, %v; want a process killed", e.killed.Text(), err)
	}
	return time.Duration(at)
}

// known waits until `hookhost jobs` says that there were so many kills and returns when it did.
func (e *eating) known(kills int64) time.Duration {
	e.t.Helper()
	must.Eventually(e.t, fmt.Sprintf("jobs tells of kill %d", kills), func() bool { return e.n.kills() >= kills })
	return monotonic()
}

// end has the job end and returns what came to its standard error last.
func (e *eating) end() (rest []string) {
	e.t.Helper()
	e.stdin.Close()
	for l := range e.stderr {
		rest = append(rest, l.text)
	}
	if err := e.cmd.Wait(); err != nil {
		e.t.Errorf("run: %v", err)
	}
	return rest
}

// kills returns what `hookhost jobs` says of the job, 0 when nothing.
func (n *node) kills() int64 {
	n.t.Helper()
	r := n.hookhost("jobs")
	row := regexp.MustCompile(`(?m)^1\.oom .* (\S+) +1 +-$`).FindStringSubmatch(r.stdout)
	if row == nil {
		n.t.Fatalf("jobs: the job is not there: %q", r.stdout)
	}
	kills, _ := strconv.ParseInt(row[1], 10, 64) // else "-"
	return kills
}

// knownWithin is what a kill may take to be known. In a guest of the laboratory a system call or a
// context switch takes ten to twenty times as long. A dozen processes and threads have their part
// between the kernel's kill and the line.
func knownWithin() time.Duration {
	if inGuest() {
		return time.Second
	}
	return 100 * time.Millisecond
}

// A kill is known at once to `jobs` and to the report, and at the job's end on its standard error.
// The time is from the last page that the victim touched, a little before the kill. Somebody else's
// load can make any of them late, but not all: the best of several is what hookhost takes.
// HOOKHOST_OOM_KILLS says how many to measure at least.
func TestOOMAtOnce(t *testing.T) {
	least, most := 3, 24
	if n, err := strconv.Atoi(os.Getenv("HOOKHOST_OOM_KILLS")); err == nil {
		least, most = n, max(n, most)
	}
	n := newNode(t, perProcess)
	var toJobs []time.Duration
	inTime := func() bool { return slices.Min(toJobs) < knownWithin() }
	for done := 0; done < least || done < most && !inTime(); {
		e := startEating(t, n)
		kills := 0
		for i := int64(1); i <= 8 && (done < least || done < most && !inTime()); i++ {
			at := e.kill()
			toJobs = append(toJobs, e.known(i)-at)
			kills++
			if done++; done == 1 {
				table := regexp.MustCompile(`LIMIT +OOM +HOSTS +RANKS\n1\.oom .* 64 MiB +1 +1 +-\n$`)
				if r := n.hookhost("jobs"); !table.MatchString(r.stdout) {
					t.Errorf("jobs: %q", r.stdout)
				}
				r := n.hookhost("report", "1.oom")
				said := strings.Join(strings.Fields(r.stdout), " ") // a note is broken into lines
				for _, want := range []string{
					"the kernel killed 1 process of the job", "Cgroup mem limit exceeded: ",
				} {
					if !strings.Contains(said, want) {
						t.Errorf("report: %q, want %q", r.stdout, want)
					}
				}
			}
			time.Sleep(30 * time.Millisecond) // kills that come one by one
		}
		if lines := e.end(); told(t, lines) != kills {
			t.Errorf("%d kills are told by %q", kills, lines)
		}
	}
	d := toJobs
	slices.Sort(d)
	t.Logf("%d kills, to the end of `hookhost jobs`: least %v, median %v, 90%% %v, most %v", len(d), d[0], d[len(d)/2],
		d[len(d)*9/10], d[len(d)-1])
	if d[0] > knownWithin() {
		t.Errorf("%v at best, want less than %v", d[0], knownWithin())
	}
}

var tellsOfKills = regexp.MustCompile(`^Cgroup mem limit exceeded: (?:Killed process|and (\d+) more of the job's processes|the kernel killed (\d+) of the job's processes)`)

// told returns how many kills the lines tell of. The kernel logs ten in five seconds, of whatever
// cgroup, and other tests may use these up. Of kills that it has not logged a line tells how many.
func told(t *testing.T, lines []string) (kills int) {
	t.Helper()
	for _, line := range lines {
		found := tellsOfKills.FindStringSubmatch(line)
		if found == nil {
			t.Errorf("standard error: %q", line)
			continue
		}
		number, err := strconv.Atoi(found[1] + found[2])
		if err != nil {
			number = 1
		}
		kills += number
	}
	return kills
}

// Each of many kills is counted, and their lines are bounded.
func TestOOMManyTimes(t *testing.T) {
	t.Cleanup(func() { time.Sleep(5 * time.Second) }) // until the kernel logs again, for the tests that come next
	n := newNode(t, perProcess)
	e := startEating(t, n)
	for range 10 {
		e.kill()
	}
	lines := e.end()
	if kills := told(t, lines); kills != 10 || len(lines) > 9 {
		t.Errorf("%d lines tell of %d kills, want 9 at most and 10: %q", len(lines), kills, lines)
	}
	out := n.hookhost("report", "1.oom", "--format=json")
	for _, h := range decodeReport(t, out.stdout).Hosts {
		if h.OOMKills == nil || *h.OOMKills != 10 {
			t.Errorf("report: %v kills, want 10", h.OOMKills)
		}
	}
}

// hookPIDs returns the pids of the node's cgroup hook: children of pid.
func hookPIDs(pid int) (pids []int) {
	for _, child := range childrenOf(pid) {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
		if strings.HasSuffix(strings.TrimRight(string(b), "\x00"), "hooks/cgroup") {
			pids = append(pids, child)
		}
	}
	return pids
}

// Whatever dies in between, each kill is told, and once.
func TestOOMAcrossRestarts(t *testing.T) {
	for _, tt := range []struct {
		name    string
		restart func(t *testing.T, n *node, d *daemon, e *eating)
	}{
		{"hook", func(t *testing.T, n *node, d *daemon, e *eating) {
			pids := hookPIDs(d.cmd.Process.Pid)
			if len(pids) != 1 {
				t.Fatalf("hooks of the daemon: %v, want one", pids)
			}
			syscall.Kill(pids[0], syscall.SIGKILL)
			must.Eventually(t, "the hook is started anew", func() bool {
				now := hookPIDs(d.cmd.Process.Pid)
				return len(now) == 1 && now[0] != pids[0]
			})
			e.kill()
		}},
		{"daemon, asked to", func(_ *testing.T, n *node, d *daemon, e *eating) { d.stop(); n.serve(); e.kill() }},
		{"daemon, killed", func(_ *testing.T, n *node, d *daemon, e *eating) { d.kill(); n.serve(); e.kill() }},
		{"daemon, killed, and nobody is there to notice",
			func(_ *testing.T, n *node, d *daemon, e *eating) { d.kill(); e.kill(); n.serve() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t, perProcess)
			d := n.serve()
			e := startEating(t, n)
			e.kill()
			e.known(1)
			tt.restart(t, n, d, e)
			e.known(2)
			if lines := e.end(); told(t, lines) != 2 {
				t.Errorf("two kills are told by %q", lines)
			}
		})
	}
}
