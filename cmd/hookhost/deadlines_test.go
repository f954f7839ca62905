package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/must"
)

// BenchmarkEqualDeadlines is a daemon with 1,000 jobs, each a sleep, whose walltimes end in one
// millisecond. The kernel's own record tells how long after that each has been sent its SIGTERM,
// and has taken it. The end that is seen later has the work of 1,000 exits as well. They are jobs
// of pbs_mom, without a margin: an event of the node gives them their walltimes.
func BenchmarkEqualDeadlines(b *testing.B) { benchDeadlines(b, 0) }

// BenchmarkDeadlinesOfASecond is the same with walltimes that end one after the other, all in one
// second. Before that it tells how often somebody wakes up while the jobs wait.
func BenchmarkDeadlinesOfASecond(b *testing.B) { benchDeadlines(b, time.Second) }

func benchDeadlines(b *testing.B, within time.Duration) {
	const jobs = 1000
	later := func(i int) time.Duration { return within * time.Duration(i) / jobs }
	for b.Loop() {
		n := newNode(b, "[walltime]\nmom_margin = \"0s\"\nsignals = []")
		d := n.serve()
		client, err := api.Dial(n.path("run/s"))
		must.NoError(b, err)
		defer client.Close()
		send := func(req *hostapi.Request) {
			if out, err := client.Handle(context.Background(), req); err != nil || out.Reject {
				b.Fatalf("%s: %v %+v", req.Event, err, out)
			}
		}
		programs, exits := make([]*exec.Cmd, jobs), make([]time.Duration, jobs)
		ids := map[string]int{}
		var exited sync.WaitGroup
		job := func(i int, walltime time.Duration) *hostapi.Job {
			return &hostapi.Job{ID: fmt.Sprintf("%d.bench", i+1), Owner: hostapi.Owner{User: "root"},
				MotherSuperior: true,
				ResourceList: hostapi.Resources{"ncpus": "0", "mem": "4mb",
					"walltime": fmt.Sprintf("%.3f", walltime.Seconds())}}
		}
		start := time.Now()
		for i := range jobs {
			programs[i] = exec.Command("sleep", "1000")
			programs[i].SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			must.NoError(b, programs[i].Start())
			exited.Go(func() { programs[i].Wait(); exits[i] = monotonic() })
			j := job(i, time.Hour)
			ids[j.ID] = i
			send(&hostapi.Request{Event: hostapi.EventBegin, Job: j})
			send(&hostapi.Request{Event: hostapi.EventLaunch, Job: j, PID: programs[i].Process.Pid, Progname: "sleep"})
		}
		list, err := client.Jobs(context.Background())
		if err != nil || len(list) != jobs {
			b.Fatalf("%d jobs, %v", len(list), err)
		}
		begun := time.Since(start)
		if within > 0 {
			time.Sleep(15 * time.Second) // a thousand begins leave more to sweep
			atRest(b, "1,000 jobs whose time runs out later", d.programs())
		}
		end := time.Now().Add(20 * time.Second)
		altered := map[string]*hostapi.Job{}
		for _, j := range list {
			altered[j.Job.ID] = job(ids[j.Job.ID],
				end.Add(later(ids[j.Job.ID])).Sub(j.Launched).Truncate(time.Millisecond))
		}
		send(&hostapi.Request{Event: hostapi.EventPeriodic, JobList: altered})
		b.Logf("%d jobs begun in %v", jobs, begun)
		terms := traceTerms(b)
		due := onMonotonic(b, end)
		if time.Until(end) < 5*time.Second {
			b.Fatal("the deadline was set too late")
		}
		exited.Wait()
		var sent, taken, ended []time.Duration
		generated, delivered := terms()
		for i, p := range programs {
			at, got := generated[p.Process.Pid], delivered[p.Process.Pid]
			if at == 0 || got == 0 {
				b.Fatalf("no SIGTERM of process %d was recorded", p.Process.Pid)
			}
			due := due + later(i)
			sent, taken, ended = append(sent, at-due), append(taken, got-due), append(ended, exits[i]-due)
		}
		spread(b, "sent", sent)
		spread(b, "taken", taken)
		spread(b, "ended", ended)
		for i := range jobs {
			send(&hostapi.Request{Event: hostapi.EventEpilogue, Job: job(i, time.Hour)})
			send(&hostapi.Request{Event: hostapi.EventEnd, Job: job(i, time.Hour)})
		}
	}
	b.ReportMetric(0, "ns/op")
}

// programs are the pids of a daemon and of its hooks, by name.
func (d *daemon) programs() map[string]int {
	d.n.t.Helper()
	pids := map[string]int{"host": d.cmd.Process.Pid}
	for _, name := range []string{"cgroup", "devices", "mpi", "walltime"} {
		hooks := processesNamed(filepath.Join(built, "hooks", name))
		if len(hooks) != 1 {
			d.n.t.Fatalf("%d hooks %s", len(hooks), name)
		}
		pids[name] = hooks[0]
	}
	return pids
}

// tracedTerm is a line of ftrace (Documentation/trace/ftrace.rst): "sleep-4711 [000] d..1.
// 123.456789: signal_deliver: sig=9 ...".
var tracedTerm = regexp.MustCompile(`-(\d+) +\[\d+\][^:]* (\d+\.\d+): signal_(generate|deliver): sig=\d+ (?:.* pid=(\d+))?`)

// traceTerms has the kernel note every SIGTERM from now on, in a buffer of its own. A process that
// SIGTERM ends takes it as SIGKILL (complete_signal of kernel/signal.c). The function that it
// returns ends that. The result is when each process was sent its first and when it took that, on
// the clock that nobody sets.
func traceTerms(b *testing.B) (stop func() (generated, delivered map[int]time.Duration)) {
	b.Helper()
	dir := b.TempDir()
	must.NoError(b, unix.Mount("none", dir, "tracefs", 0, ""))
	b.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	own := filepath.Join(dir, "instances", fmt.Sprintf("hhtest_%d", os.Getpid()))
	must.NoError(b, os.Mkdir(own, 0o755))
	b.Cleanup(func() { os.Remove(own) })
	for _, set := range [][2]string{{"trace_clock", "mono"}, {"events/signal/signal_generate/filter", "sig == 15"},
		{"events/signal/signal_deliver/filter", "sig == 15 || sig == 9"}, {"events/signal/enable", "1"}} {
		must.NoError(b, os.WriteFile(filepath.Join(own, set[0]), []byte(set[1]), 0))
	}
	return func() (generated, delivered map[int]time.Duration) {
		text, err := os.ReadFile(filepath.Join(own, "trace"))
		must.NoError(b, err)
		generated, delivered = map[int]time.Duration{}, map[int]time.Duration{}
		for _, m := range tracedTerm.FindAllStringSubmatch(string(text), -1) {
			who, to := m[1], delivered
			if m[3] == "generate" {
				who, to = m[4], generated
			}
			pid, _ := strconv.Atoi(who)
			seconds, err := strconv.ParseFloat(m[2], 64)
			must.NoError(b, err)
			if to[pid] == 0 {
				to[pid] = time.Duration(seconds * float64(time.Second))
			}
		}
		os.WriteFile(filepath.Join(own, "events/signal/enable"), []byte("0"), 0)
		if err := os.Remove(own); err != nil {
			b.Error(err)
		}
		return generated, delivered
	}
}
