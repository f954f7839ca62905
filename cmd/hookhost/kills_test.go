package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// TestNothingIsLostWhenProgramsAreKilled has jobs come and go while the daemon, the hooks and
// hookhost run are killed at random moments. Each job ends as it would have. No process of a job is
// ever outside of its cgroup, or outlives it. Each job is in the ledger once, and nothing is left.
//
// HOOKHOST_KILLS and HOOKHOST_JOBS are the numbers of kills and jobs. HOOKHOST_SEED repeats a plan.
func TestNothingIsLostWhenProgramsAreKilled(t *testing.T) {
	seed := setting(t, "HOOKHOST_SEED", rand.Uint64N(1_000_000))
	jobs, kills := setting(t, "HOOKHOST_JOBS", 6), setting(t, "HOOKHOST_KILLS", 20)
	w := newWreck(t)
	t.Logf("HOOKHOST_SEED=%d HOOKHOST_JOBS=%d HOOKHOST_KILLS=%d", seed, jobs, kills)
	plan := planKills(seed, int(jobs), int(kills), runtime.NumCPU())

	watched := w.watch()
	var lanes sync.WaitGroup
	var all []*liveJob
	for _, lane := range plan.lanes {
		var live []*liveJob
		for _, job := range lane {
			live = append(live, &liveJob{plannedJob: job, w: w})
		}
		all = append(all, live...)
		lanes.Go(func() {
			for _, job := range live {
				if err := job.carryOut(); err != nil {
					t.Errorf("job %s: %v", job.id, err)
				}
			}
		})
	}
	lanes.Wait()
	w.isIdle()
	watched()
	w.stop()
	w.leavesNothing()
	w.ledgerHas(all)
	t.Logf("kills: %v", w.kills)
}

// setting reads a number from the environment.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	must.NoError(t, err)
	return n
}

// mark is the variable that the processes of a job have in their environment.
func (w *wreck) mark(job string) string { return "HOOKHOST_KILLS_JOB=" + w.prefix + "/" + job }

// marked returns the processes of jobs, by job. A zombie has no environment, and is none.
func (w *wreck) marked() map[string][]int {
	found := map[string][]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for variable := range bytes.SplitSeq(text, []byte{0}) {
			if job, is := strings.CutPrefix(string(variable), w.mark("")); is {
				pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
				found[job] = append(found[job], pid)
			}
		}
	}
	return found
}

// watch looks again and again for processes of jobs that are outside of their cgroups, until it is
// told to end.
func (w *wreck) watch() (end func()) {
	done := make(chan struct{})
	outside := map[int]bool{}
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			for job, pids := range w.marked() {
				for _, pid := range pids {
					if !outside[pid] && !w.isInside(job, pid) {
						w.t.Errorf("job %s: outside of its cgroup: %s", job, describe([]int{pid}))
						outside[pid] = true
					}
				}
			}
			select {
			case <-done:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	return func() { close(done); watching.Wait() }
}

// isInside reports whether a process is in its job's cgroup, by each controller. A process that is
// just being made has no cgroup for a moment.
func (w *wreck) isInside(job string, pid int) bool {
	for range 10 {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		outside := slices.DeleteFunc([]string{"memory", "cpu", "pids"}, func(controller string) bool {
			in := cgroupOf(string(text), controller)
			return filepath.Base(in) == job && strings.Contains(in, w.prefix)
		})
		if err != nil || len(outside) == 0 || !slices.Contains(w.marked()[job], pid) {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// phases returns the phases of the node's jobs, by job, or an error while there is no daemon.
func (w *wreck) phases() (map[string]string, error) {
	out, err := w.command("jobs", "--json").Output()
	var list struct {
		Jobs []struct {
			Job   struct{ ID string }
			Phase string
		}
	}
	if err == nil {
		err = json.Unmarshal(out, &list)
	}
	phases := map[string]string{}
	for _, job := range list.Jobs {
		phases[job.Job.ID] = job.Phase
	}
	return phases, err
}

// isIdle waits until the daemon has no job and no more open files than one that has just begun.
func (w *wreck) isIdle() {
	w.t.Helper()
	must.Eventually(w.t, "no job is left", func() bool {
		phases, err := w.phases()
		return err == nil && len(phases) == 0 && len(w.jobDirs()) == 0
	})
	files := func() int {
		open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", w.daemonPID()))
		return len(open)
	}
	long := w.daemonPID()
	time.Sleep(2 * time.Second) // hooks that were killed last are started again
	open := files()
	w.strikeDaemon(0)
	must.Eventually(w.t, "the next daemon answers", func() bool {
		return w.daemonPID() != 0 && w.daemonPID() != long && w.command("jobs").Run() == nil
	})
	what := fmt.Sprintf("the next daemon has %d files open as well", open)
	must.Eventually(w.t, what, func() bool { return files() >= open })
}

// leavesNothing looks for processes and files that the daemon has left.
func (w *wreck) leavesNothing() {
	w.t.Helper()
	for _, name := range victimHooks {
		if left := processesNamed(filepath.Join(built, "hooks", name)); len(left) > 0 {
			w.t.Errorf("the daemon has left hooks: %s", describe(left))
		}
	}
	must.NoError(w.t, filepath.WalkDir(w.dir, func(path string, entry fs.DirEntry, err error) error {
		record := strings.HasPrefix(path, w.path("run/jobs/")) && !entry.IsDir()
		node := filepath.Dir(path) == w.path("run/aux")
		if err == nil && (entry.Type()&fs.ModeSocket != 0 || record || node) {
			w.t.Errorf("left: %s", path)
		}
		return err
	}))
	if left, _ := filepath.Glob("/var/tmp/pbs.*.kills*"); len(left) > 0 {
		w.t.Errorf("left: %v", left)
	}
}

// ledgerHas asserts that each job whose program has started is in the ledger once. A job whose run
// was killed before that may not be there.
func (w *wreck) ledgerHas(jobs []*liveJob) {
	w.t.Helper()
	text, err := os.ReadFile(w.path("state/ledger.jsonl"))
	must.NoError(w.t, err)
	reports := map[string]int{}
	for line := range bytes.Lines(text) {
		var entry struct{ Job string }
		must.NoError(w.t, json.Unmarshal(line, &entry))
		reports[entry.Job]++
	}
	for _, job := range jobs {
		if n := reports[job.id]; n > 1 || n == 0 && job.begun {
			w.t.Errorf("job %s is in the ledger %d times", job.id, n)
		}
	}
}

// describe is how ps shows processes.
func describe(pids []int) string {
	var lines []string
	for _, pid := range pids {
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		words := bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '})
		lines = append(lines, fmt.Sprintf("%d %s %q", pid, state(pid), words))
	}
	return strings.Join(lines, ", ")
}

// state is the state of a process as proc(5) has it; "" of one that has ended.
func state(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	return after[:min(1, len(after))]
}
