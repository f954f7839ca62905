package main_test

import (
	"bytes"
	"io"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// untilInputEnds is the beginning of a program that ends with its standard input. With its thread
// each sample has two tasks, and the document a chart of them.
const untilInputEnds = `
import os, sys, threading, time
def end():
    sys.stdin.read()
    os._exit(0)
threading.Thread(target=end).start()
`

// realJob is a job that is run for its reports.
type realJob struct {
	name, id  string
	resources string
	command   []string
	status    int
}

// realJobs run on one host, all at once. The one that idles has so many cpus that its start is no
// line over time on a slow machine.
var realJobs = []realJob{
	{"steady", "101.srv", "select=1:ncpus=1:mem=256mb,walltime=00:10:00", python(untilInputEnds + `
x = bytearray(80 << 20)
while True: pass`), 0},
	{"leaking", "102.srv", "select=1:ncpus=1:mem=128mb,walltime=00:10:00", python(untilInputEnds + `
x = []
while True:
    x.append(bytearray(4 << 20))
    later = time.monotonic() + 0.15
    while time.monotonic() < later: pass`), 137},
	{"bursty", "103.srv", "select=1:ncpus=1:mem=256mb,walltime=00:10:00", python(untilInputEnds + `
while True:
    x = bytearray(150 << 20)
    later = time.monotonic() + 1.5
    while time.monotonic() < later: pass
    x = None
    time.sleep(2)`), 0},
	{"idle", "105.srv", "select=1:ncpus=4:mem=1gb,walltime=00:10:00", []string{"sh", "-c", "cat; true"}, 0},
}

func python(program string) []string { return []string{"/usr/bin/python3", "-c", program} }

// Five jobs as operators know them run for real. Their reports in each format are those of
// testdata/reports but for figures, times and what other kernels do not tell.
func TestReportsOfRealJobsReadAsTheGoldenFiles(t *testing.T) {
	// Pages of the program that a job is the first to read are charged to it.
	if out, err := exec.Command("/usr/bin/python3", "-c", untilInputEnds).CombinedOutput(); err != nil {
		t.Fatal(string(out), err)
	}
	// The jobs have more cpus together than a machine may have.
	n := newNode(t, perProcess+"[host]\nnode = \"n1\"\n[cpuset]\nenabled = false", eachSecond)
	n.serve()
	report := func(args ...string) *exec.Cmd {
		cmd := n.command(append([]string{"report"}, args...)...)
		cmd.Env = append(cmd.Env, "LC_ALL=C") // plots are ASCII
		return cmd
	}
	var runs []*runningJob
	for _, job := range realJobs {
		runs = append(runs, startReal(t, job, n.command(append([]string{"run", "--job", job.id, "-N", job.name,
			"--report=none", "-l", job.resources, "--"}, job.command...)...), report))
	}
	for _, r := range runs {
		t.Run(r.job.name, r.reads)
	}
}

// runningJob is a job that runs until its standard input ends, or until it is killed.
type runningJob struct {
	job    realJob
	cmd    *exec.Cmd
	stdin  io.Closer
	output bytes.Buffer
	report func(args ...string) *exec.Cmd
}

func startReal(t *testing.T, job realJob, cmd *exec.Cmd, report func(...string) *exec.Cmd) *runningJob {
	t.Helper()
	r := &runningJob{job: job, cmd: cmd, report: report}
	var err error
	r.stdin, err = cmd.StdinPipe()
	cmd.Stdout, cmd.Stderr = &r.output, &r.output
	must.NoError(t, err, cmd.Start())
	t.Cleanup(func() { r.stdin.Close(); cmd.Wait() })
	return r
}

// advised reports whether the job is long enough for advice, and its series for plots. A job that
// idles has to idle for long where its start was slow.
func (r *runningJob) advised(t *testing.T) bool {
	t.Helper()
	out, err := r.report("--format=json", r.job.id).Output()
	if err != nil {
		return false // begin is not over
	}
	rep := reportOfHosts(t, string(out))
	elapsed := time.Since(rep.Start).Seconds()
	for _, h := range rep.Hosts {
		if h.Series == nil || len(h.Series.Times) < 8 || h.CPUTSeconds == nil ||
			r.job.name == "idle" && *h.CPUTSeconds > 0.006*elapsed {
			return false
		}
	}
	return elapsed > 11
}

// reads ends the job and compares its reports with the golden files.
func (r *runningJob) reads(t *testing.T) {
	if r.job.status == 0 {
		must.Eventually(t, r.job.name+" has run for long", func() bool {
			time.Sleep(200 * time.Millisecond) // each look is a process
			return r.advised(t)
		})
		r.stdin.Close()
	}
	r.cmd.Wait()
	if got := r.cmd.ProcessState.ExitCode(); got != r.job.status {
		t.Errorf("status %d, want %d: %s", got, r.job.status, r.output.Bytes())
	}
	for ending, shape := range reportShapes {
		out, err := r.report("--format="+shape.format, r.job.id).Output()
		must.NoError(t, err)
		t.Logf("%s:\n%s", shape.format, out)
		if got, err := shape.of(string(out)); err != nil {
			t.Errorf("%s: %v\n%s", shape.format, err, out)
		} else {
			golden(t, filepath.Join("reports", r.job.name+"."+ending), got)
		}
	}
}
