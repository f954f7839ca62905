package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/cgroup/cgrouptest"
	"github.com/hookhost/hookhost/internal/must"
)

// benchNode is a node with a daemon.
func benchNode(b *testing.B) (*node, *daemon) {
	b.Helper()
	n := newNode(b)
	return n, n.serve()
}

// BenchmarkRun is `run -- true` from start to end, report and all, in turns with a fork and exec.
func BenchmarkRun(b *testing.B) {
	n, _ := benchNode(b)
	var ours, floor []time.Duration
	for b.Loop() {
		start := time.Now()
		must.NoError(b, n.command("run", "-l", "select=1:ncpus=1:mem=64mb", "--", "true").Run())
		middle := time.Now()
		must.NoError(b, exec.Command("true").Run())
		ours, floor = append(ours, middle.Sub(start)), append(floor, time.Since(middle))
	}
	cgrouptest.Row(b, "`run -- true`", ours, floor, "10 ms more")
}

// BenchmarkEvent is one event through socket, host and the cgroup hook. The event is an attach of
// a process that is gone, which the hook looks for and does not find.
func BenchmarkEvent(b *testing.B) {
	n, _ := benchNode(b)
	client, err := api.Dial(n.path("run/s"))
	must.NoError(b, err)
	defer client.Close()
	job := func() *hostapi.Job {
		return &hostapi.Job{ID: "1.bench", Owner: hostapi.Owner{User: "root"}, MotherSuperior: true,
			ResourceList: hostapi.Resources{"ncpus": "1", "mem": "64mb"}}
	}
	send := func(event hostapi.Event, pid int) {
		out, err := client.Handle(context.Background(), &hostapi.Request{Event: event, Job: job(), PID: pid})
		if err != nil || out.Reject {
			b.Fatalf("%s: %v %+v", event, err, out)
		}
	}
	send(hostapi.EventBegin, 0)
	send(hostapi.EventLaunch, 0)
	b.Run("attach", func(b *testing.B) {
		for b.Loop() {
			send(hostapi.EventAttach, 4194300)
		}
	})
	b.Run("resize", func(b *testing.B) {
		sizes := []string{"64mb", "96mb"}
		for i := 0; b.Loop(); i++ {
			j := job()
			j.ResourceList["mem"] = sizes[i%2]
			out, err := client.Handle(context.Background(), &hostapi.Request{Event: hostapi.EventResize, Job: j})
			if err != nil || out.Reject {
				b.Fatalf("resize: %v %+v", err, out)
			}
		}
	})
	send(hostapi.EventEnd, 0)
	b.Run("begin+end", func(b *testing.B) {
		for b.Loop() {
			send(hostapi.EventBegin, 0)
			send(hostapi.EventEnd, 0)
		}
	})
}

// BenchmarkEndOfTenThousand is the end of a job of 10,000 processes, as the client sees it. In
// turns with it the kernel kills as many, by cgroup.kill where it has that, until the cgroup is
// empty.
func BenchmarkEndOfTenThousand(b *testing.B) {
	const size = 10000
	var ours, floor []time.Duration
	others := inProc(b)
	reaped := func() bool { return inProc(b) < others+size/2 }
	for b.Loop() {
		n := newNode(b, "kill_timeout = \"50s\"")
		d := n.serve()
		client, err := api.Dial(n.path("run/s"))
		must.NoError(b, err)
		end := &hostapi.Request{}
		must.NoError(b, json.Unmarshal([]byte(n.bombed(size)), end))
		end.Event = hostapi.EventEnd
		start := time.Now()
		out, err := client.Handle(context.Background(), end)
		ours = append(ours, time.Since(start))
		if err != nil || out.Reject || len(n.members()) > 0 {
			b.Fatalf("%v %+v", err, out)
		}
		must.Eventually(b, "init has reaped most of them", reaped) // else the host's pids do not suffice
		n.bombed(size)
		start = time.Now()
		n.killRaw(b)
		floor = append(floor, time.Since(start))
		if _, err := client.Handle(context.Background(), end); err != nil {
			b.Fatal(err)
		}
		client.Close()
		d.stop()
		must.Eventually(b, "init has reaped most of them", reaped) // else the host's pids do not suffice
	}
	cgrouptest.Row(b, "end of a job of 10,000 processes", ours, floor, "–")
}

// inProc returns how many files /proc has, which are its processes and some more.
func inProc(b *testing.B) int {
	names, err := os.ReadDir("/proc")
	must.NoError(b, err)
	return len(names)
}

// killRaw ends what is in the node's job, and returns when that is empty.
func (n *node) killRaw(b *testing.B) {
	files := n.cgroups("/jobs/*/cgroup.kill")
	if len(files) == 0 {
		for _, text := range n.members() {
			pid, err := strconv.Atoi(text)
			must.NoError(b, err)
			syscall.Kill(pid, syscall.SIGKILL)
		}
	} else {
		must.NoError(b, os.WriteFile(files[0], []byte("1"), 0))
	}
	procs := n.jobDirs()
	for populated := true; populated; {
		time.Sleep(time.Millisecond)
		text, err := os.ReadFile(procs[len(procs)-1])
		must.NoError(b, err)
		populated = len(text) > 0
	}
}

// BenchmarkIdle looks at a daemon that has nothing to do, without a job and with one.
func BenchmarkIdle(b *testing.B) {
	n := newNode(b, "[metrics]\nlisten = ':"+freePort(b)+"'")
	d := n.serve()
	must.Eventually(b, "the hooks run", func() bool {
		return len(processesNamed(filepath.Join(built, "hooks/cgroup"))) == 1 &&
			len(processesNamed(filepath.Join(built, "hooks/walltime"))) == 1
	})
	pids := d.programs()
	b.Run("no job", func(b *testing.B) { atRest(b, "no job", pids) })
	b.Run("sleeping job", func(b *testing.B) {
		cmd := n.command("run", "--report=none", "--", "sleep", "20")
		must.NoError(b, cmd.Start())
		must.Eventually(b, "the job runs", func() bool { return len(processesNamed("sleep", "20")) > 0 })
		time.Sleep(time.Second) // past its start
		with := map[string]int{"run": cmd.Process.Pid}
		for name, pid := range pids {
			with[name] = pid
		}
		atRest(b, "one job that sleeps", with)
		cmd.Wait()
	})
}

// atRest looks at processes that have nothing to do, for four times three seconds. The least of
// these has no periodic and no point of a series in it.
func atRest(b *testing.B, what string, pids map[string]int) {
	const times, span = 4, 3 * time.Second
	time.Sleep(3 * time.Second) // the runtime sweeps and gives memory back after what came before
	least := map[string]int{}
	for name := range pids {
		least[name] = math.MaxInt
	}
	for range times {
		before := map[string]int{}
		for name, pid := range pids {
			before[name] = switches(b, pid)
		}
		time.Sleep(span)
		for name, pid := range pids {
			least[name] = min(least[name], switches(b, pid)-before[name])
		}
	}
	var rest []string
	for _, name := range slices.Sorted(maps.Keys(pids)) {
		pid := pids[name]
		perSecond := float64(least[name]) / span.Seconds()
		b.ReportMetric(perSecond, name+"-switches/s")
		b.ReportMetric(float64(status(b, pid, "VmRSS")), name+"-rss-kB")
		b.ReportMetric(float64(pss(b, pid)), name+"-pss-kB")
		rest = append(rest, fmt.Sprintf("%s %.0f MB, %.1f/s", name, float64(status(b, pid, "VmRSS"))/1000, perSecond))
	}
	cgrouptest.Line(b, "resident memory and thread switches, "+what, strings.Join(rest, "; "), "0/s", "0/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkWalltime is how late a job of three seconds gets its warning, two seconds before its
// end, and its SIGTERM. The job's own clock counts. Run it 50 times.
func BenchmarkWalltime(b *testing.B) {
	n, _ := benchNode(b)
	var warned, ended []time.Duration
	for b.Loop() {
		cmd := n.command("run", "-l", "walltime=3", "-l", "walltime_signal=USR1@2", "--report=json", "--", "python3",
			"-c", traps)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if cmd.Run(); cmd.ProcessState.ExitCode() != 143 {
			b.Fatalf("%v: %s", cmd.ProcessState, &stderr)
		}
		times, launched := said(b, stdout.String()), onMonotonic(b, result{stderr: stderr.String()}.report(b).Start)
		warned = append(warned, times["SIGUSR1"]-launched-1*time.Second)
		ended = append(ended, times["SIGTERM"]-launched-3*time.Second)
	}
	spread(b, "USR1", warned)
	spread(b, "TERM", ended)
	b.ReportMetric(0, "ns/op")
}

// spread reports a distribution in milliseconds.
func spread(b *testing.B, what string, d []time.Duration) {
	slices.Sort(d)
	for _, of := range []struct {
		name string
		part float64
	}{{"min", 0}, {"median", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"max", 1}} {
		b.ReportMetric(float64(d[int(of.part*float64(len(d)-1))].Microseconds())/1000, what+"-"+of.name+"-ms")
	}
}

// switches returns how often the threads of a process were scheduled.
func switches(b *testing.B, pid int) int {
	total := 0
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, task := range tasks {
		for _, key := range []string{"voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"} {
			total += field(b, task, key)
		}
	}
	return total
}

func status(b testing.TB, pid int, key string) int {
	return field(b, fmt.Sprintf("/proc/%d/status", pid), key)
}

func pss(b *testing.B, pid int) int {
	return field(b, fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss")
}

func field(b testing.TB, file, key string) int {
	text, err := os.ReadFile(file)
	must.NoError(b, err)
	for line := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(line, ":"); ok && k == key {
			n, _ := strconv.Atoi(strings.Fields(v)[0])
			return n
		}
	}
	b.Fatalf("%s has no %s", file, key)
	return 0
}

// bare makes testdata/bare, a static Go program: what an attach is measured against. Guests, which
// have no Go, bring it along.
func bare(b *testing.B) string {
	b.Helper()
	if program := filepath.Join(built, "samples/bare"); exists(program) {
		return program
	}
	dir := b.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} { // nobody is to run it
		must.NoError(b, os.Chmod(d, 0o711))
	}
	program := filepath.Join(dir, "bare")
	cmd := exec.Command("go", "build", "-o", program, "../../testdata/bare")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, text)
	}
	return program
}

// BenchmarkAttach is a program run by itself and through pbs-attach, one after the other in turn,
// since the machine may be busy with other things. "again" comes right behind another attach: the
// first in a while waits for the kernel, see docs/performance.md. A round takes some 80 ms. In a
// guest all of it is done once more where the kernel does not wait; that option is the whole
// kernel's.
func BenchmarkAttach(b *testing.B) {
	b.Run("as mounted", func(b *testing.B) { attachOneByOne(b, newNode(b)) })
	if inGuest() {
		b.Run("favordynmods", func(b *testing.B) {
			tree := "/sys/fs/cgroup"
			if exists(tree + "/unified") {
				tree += "/unified"
			}
			if out, err := exec.Command("mount", "-o", "remount,favordynmods", tree).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			attachOneByOne(b, newNode(b))
		})
	}
}

func attachOneByOne(b *testing.B, n *node) {
	n.serve()
	const job = "7.bench"
	n.beginFor(b, job)
	program := bare(b)
	attach := []string{filepath.Join(built, "pbs-attach"), "-j", job, "--", program}
	run := func(args ...string) time.Duration {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Env = "/", []string{"HOOKHOST_SOCKET=" + n.path("run/s")}
		cmd.SysProcAttr = sessionOf(ownerUID)
		var said bytes.Buffer
		cmd.Stderr = &said
		start := time.Now()
		if err := cmd.Run(); err != nil {
			b.Fatalf("%v: %v: %s", args, err, &said)
		}
		return time.Since(start)
	}
	run(attach...) // which begins the job
	var bares, firsts, agains []time.Duration
	for b.Loop() {
		bares = append(bares, run(program))
		time.Sleep(50 * time.Millisecond)
		firsts = append(firsts, run(attach...))
		agains = append(agains, run(attach...))
	}
	spread(b, "bare", bares)
	spread(b, "first", firsts)
	spread(b, "again", agains)
	for name, d := range map[string][]time.Duration{"first": firsts, "again": agains} { // spread has put them in order
		b.ReportMetric(float64(d[len(d)/2])/float64(bares[len(bares)/2]), name+"/bare")
	}
	b.ReportMetric(0, "ns/op")
}

// Benchmark200Attaches is 200 attaches at one time: how long after they were let go each has
// become its program. The programs themselves say so. The same programs run without an attach,
// too. All are looked for in the job. A round takes seconds: run it 5 times, and not by a pattern
// that takes BenchmarkAttach as well.
func Benchmark200Attaches(b *testing.B) {
	n, _ := benchNode(b)
	const job, count = "7.bench", 200
	n.beginFor(b, job)
	program := bare(b)
	var bares, attached []time.Duration
	for b.Loop() {
		bares = append(bares, n.atOnce(b, program, count, "")...)
		attached = append(attached, n.atOnce(b, program, count, job)...)
	}
	spread(b, "bare", bares)
	spread(b, "attach", attached)
	b.ReportMetric(0, "ns/op")
}

// atOnce starts a program count times at one moment, in a job where one is named, and returns how
// long each took to begin.
func (n *node) atOnce(b *testing.B, program string, count int, job string) (took []time.Duration) {
	in, let, err := os.Pipe()
	must.NoError(b, err)
	defer in.Close()
	said, say, err := os.Pipe()
	must.NoError(b, err)
	defer said.Close()
	args := []string{"-c", `echo; read x; exec "$@"`, "sh"}
	if job != "" {
		args = append(args, filepath.Join(built, "pbs-attach"), "-j", job, "--")
	}
	for range count {
		cmd := exec.Command("sh", append(args, program)...)
		cmd.Dir, cmd.Env = "/", []string{"SAY=1", "HOOKHOST_SOCKET=" + n.path("run/s")}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in, say, os.Stderr
		cmd.SysProcAttr = sessionOf(ownerUID)
		must.NoError(b, cmd.Start())
		defer func() { cmd.Process.Kill(); cmd.Wait() }()
	}
	say.Close()
	lines := bufio.NewScanner(said)
	for range count {
		if !lines.Scan() {
			b.Fatalf("not all are there: %v", lines.Err())
		}
	}
	time.Sleep(100 * time.Millisecond) // all wait
	start := time.Now()
	let.Close()
	for len(took) < count {
		if !lines.Scan() {
			b.Fatalf("only %d of %d have begun: %v", len(took), count, lines.Err())
		}
		var pid int
		var at int64
		if _, err := fmt.Sscan(lines.Text(), &pid, &at); err != nil {
			b.Fatalf("%q: %v", lines.Text(), err)
		}
		took = append(took, time.UnixMicro(at).Sub(start))
		if job != "" {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
			if err != nil || filepath.Base(cgroupOf(string(text), "memory")) != job {
				b.Fatalf("process %d is not in the job: %v %s", pid, err, text)
			}
		}
	}
	return took
}
