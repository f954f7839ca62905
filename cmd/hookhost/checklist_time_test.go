package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// Walltime is the mother superior's affair. Suspended time does not count, and a restart changes
// nothing. A program that minds no SIGTERM gets SIGKILL after the job's own grace.
func TestChecklist17Walltime(t *testing.T) {
	t.Parallel() // it waits more than it does
	config := "[walltime]\nmom_margin = \"1s\"\n"
	m := newMoM(t, config)
	m.serve()
	sister := newMoMOf(t, "sister", config)
	sister.serve()
	limit := enough(3)
	chunks := "(pbshost:ncpus=1:mem=32768kb)+(sister:ncpus=1:mem=32768kb)"
	j := pbsJob{id: "1701.pbshost", chunks: chunks, list: fmt.Sprintf("ncpus=2,mem=64mb,walltime=00:00:%02d", limit)}
	file := filepath.Join(m.at("spool"), "said")
	k := m.running(j, "python3", "-c", `import os, signal, sys, time
out = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_APPEND)
signal.signal(signal.SIGTERM, lambda *_: os.write(out, b"SIGTERM %.6f\n" % time.monotonic()))
os.write(out, b"started %.6f\n" % time.monotonic())
while True: signal.pause()`, file)
	launched := monotonic() // or before
	there := j
	there.sister = true
	other := sister.running(there, "sleep", "1000")
	read := func() map[string]time.Duration { b, _ := os.ReadFile(file); return said(t, string(b)) }
	must.Eventually(t, "the program has started", func() bool { return read()["started"] != 0 })

	if a := m.job("execjob_postsuspend", j); !a.accepted {
		t.Fatalf("postsuspend: %+v", a)
	}
	suspended := monotonic()
	m.daemon.killAll()
	m.serve()
	over := time.Duration(limit+1)*time.Second + time.Second
	time.Sleep(launched + over - monotonic())
	if at, told := read()["SIGTERM"]; told {
		t.Fatalf("SIGTERM at %v, while suspended", at)
	}
	if a := m.job("execjob_preresume", j); !a.accepted {
		t.Fatalf("preresume: %+v", a)
	}
	resumed := monotonic()
	k.over()
	killed := monotonic()
	stood := resumed - suspended
	if got, least := read()["SIGTERM"], launched+time.Duration(limit+1)*time.Second; got < least+stood-time.Second ||
		got > least+stood+late+time.Second {
		t.Errorf("SIGTERM %v after the launch, of which it stood for %v; want it %v after that", got-launched, stood,
			least-launched)
	} else if killed < got+time.Second-early { // job_kill_delay
		t.Errorf("killed %v after its SIGTERM", killed-got)
	}
	if syscall.Kill(other.pid(), 0) != nil || !inJob(t, other.pid(), j.id) {
		t.Error("the sister has ended it as well")
	}
	m.end(j)
	sister.end(there)
	if notes := reportOfHosts(t,
		m.hookhost("report", j.id, "--format=json").stdout).Notes; !strings.Contains(strings.Join(notes, "\n"),
		"walltime") {
		t.Errorf("notes %q", notes)
	}
}

// A suspended job's cpus and memory are others' to have, and what goes on shares them.
func TestChecklist18SuspendedJobsGiveTheirPlace(t *testing.T) {
	m := newMoM(t)
	m.serve()
	all := fmt.Sprintf("ncpus=%d,mem=32mb", online(t))
	j, next := pbsJob{id: "1801.pbshost", list: all}, pbsJob{id: "1802.pbshost", list: all}
	k := m.running(j, "sleep", "1000")
	if a := m.job("execjob_begin", next); a.accepted || !a.is("job._rerun") {
		t.Errorf("a job beside one that has all cpus: %+v, want it rerun", a)
	}
	if a := m.job("execjob_postsuspend", j); !a.accepted || !m.frozen(j.id) {
		t.Fatalf("postsuspend: %+v, frozen: %v", a, m.frozen(j.id))
	}
	second := m.running(next, "sleep", "1000")
	if a := m.job("execjob_preresume", j); !a.accepted || m.frozen(j.id) {
		t.Errorf("preresume: %+v, frozen: %v", a, m.frozen(j.id))
	}
	for _, one := range []struct {
		k *task
		j pbsJob
	}{{k, j}, {second, next}} {
		if !inJob(t, one.k.pid(), one.j.id) || allowed(t, one.k.pid()) != online(t) {
			t.Errorf("%s has %d cpus", one.j.id, allowed(t, one.k.pid()))
		}
		m.end(one.j)
	}
}
