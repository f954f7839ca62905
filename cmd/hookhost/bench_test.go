package main_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
)

// benchNode is a node with a daemon.
func benchNode(b *testing.B) (*node, *daemon) {
	b.Helper()
	n := newNode(b)
	return n, n.serve()
}

// BenchmarkForkExec is what `run -- true` is measured against.
func BenchmarkForkExec(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRun is `run -- true` from start to end, report and all.
func BenchmarkRun(b *testing.B) {
	run := func(b *testing.B, n *node) {
		for b.Loop() {
			if err := n.command("run", "-l", "select=1:ncpus=1:mem=64mb", "--", "true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("daemon", func(b *testing.B) {
		n, _ := benchNode(b)
		run(b, n)
	})
	b.Run("embedded", func(b *testing.B) { run(b, newNode(b)) })
}

// BenchmarkEvent is one event through socket, host and the cgroup hook: an attach of a process that is gone, which the
// hook looks for and does not find.
func BenchmarkEvent(b *testing.B) {
	n, _ := benchNode(b)
	client, err := api.Dial(n.path("run/s"))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	job := func() *hostapi.Job {
		return &hostapi.Job{ID: "1.bench", Owner: hostapi.Owner{User: "root"}, MotherSuperior: true, ResourceList: hostapi.Resources{"ncpus": "1", "mem": "64mb"}}
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
	send(hostapi.EventEnd, 0)
	b.Run("begin+end", func(b *testing.B) {
		for b.Loop() {
			send(hostapi.EventBegin, 0)
			send(hostapi.EventEnd, 0)
		}
	})
}

// BenchmarkEndOfThousand is the end of a job of 1,000 processes: from the exit of its leading program until `run` has
// returned, and, as the report says, until the last process was dead.
func BenchmarkEndOfThousand(b *testing.B) {
	const script = `import os, signal, time
for _ in range(1000):
    if os.fork() == 0:
        signal.pause()
print(time.time(), flush=True)
os._exit(0)`
	n, _ := benchNode(b)
	var dead, returned time.Duration
	for b.Loop() {
		cmd := n.command("run", "-l", "select=1:ncpus=2:mem=8gb", "--report=json", "--", "python3", "-c", script)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			b.Fatalf("%v: %s", err, &stderr)
		}
		now := time.Now()
		seconds, err := strconv.ParseFloat(strings.TrimSpace(stdout.String()), 64)
		if err != nil {
			b.Fatal(err)
		}
		returned += now.Sub(time.UnixMicro(int64(seconds * 1e6)))
		_, kill, _ := strings.Cut(stderr.String(), `"kill":{"signal":"SIGKILL","seconds":`)
		kill, _, _ = strings.Cut(kill, ",")
		if seconds, err = strconv.ParseFloat(kill, 64); err != nil {
			b.Fatalf("%v in %s", err, &stderr)
		}
		dead += time.Duration(seconds * float64(time.Second))
	}
	b.ReportMetric(float64(dead.Milliseconds())/float64(b.N), "ms-to-dead")
	b.ReportMetric(float64(returned.Milliseconds())/float64(b.N), "ms-to-return")
}

// BenchmarkIdle looks at a daemon that has nothing to do for ten seconds, without a job and with one.
func BenchmarkIdle(b *testing.B) {
	look := func(b *testing.B, pids map[string]int) {
		const span = 10 * time.Second
		time.Sleep(3 * time.Second) // the runtime sweeps and gives memory back after what came before
		before := map[string]int{}
		for name, pid := range pids {
			before[name] = switches(b, pid)
		}
		time.Sleep(span)
		for name, pid := range pids {
			b.ReportMetric(float64(switches(b, pid)-before[name])/span.Seconds(), name+"-wakeups/s")
			b.ReportMetric(float64(status(b, pid, "VmRSS")), name+"-rss-kB")
			b.ReportMetric(float64(pss(b, pid)), name+"-pss-kB")
		}
		b.ReportMetric(0, "ns/op")
	}
	n, d := benchNode(b)
	var hook []int
	eventually(b, "the cgroup hook runs", func() bool {
		hook = processesNamed(filepath.Join(built, "hooks/cgroup"))
		return len(hook) == 1
	})
	pids := map[string]int{"host": d.cmd.Process.Pid, "cgroup": hook[0]}
	b.Run("no job", func(b *testing.B) { look(b, pids) })
	b.Run("sleeping job", func(b *testing.B) {
		cmd := n.command("run", "--report=none", "--", "sleep", "15")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		eventually(b, "the job runs", func() bool { return len(processesNamed("sleep", "15")) > 0 })
		time.Sleep(time.Second) // past its start
		with := map[string]int{"run": cmd.Process.Pid}
		for name, pid := range pids {
			with[name] = pid
		}
		look(b, with)
		cmd.Wait()
	})
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

func status(b *testing.B, pid int, key string) int {
	return field(b, fmt.Sprintf("/proc/%d/status", pid), key)
}

func pss(b *testing.B, pid int) int {
	return field(b, fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss")
}

func field(b *testing.B, file, key string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(line, ":"); ok && k == key {
			n, _ := strconv.Atoi(strings.Fields(v)[0])
			return n
		}
	}
	b.Fatalf("%s has no %s", file, key)
	return 0
}
