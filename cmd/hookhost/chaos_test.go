package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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

// TestNothingIsLostUnderFaults has jobs come and go while programs are killed and stopped, disks
// fill, files are damaged and cgroups cannot be written, at random moments. Each job ends as it
// would have. No process of a job is ever outside of its cgroup or without its limits, or outlives
// it. Each job has one report, and nothing is left.
//
// HOOKHOST_CHAOS is how long that goes on (`make chaos`); without it there are a few jobs.
// HOOKHOST_SEED repeats a plan.
func TestNothingIsLostUnderFaults(t *testing.T) {
	seed := setting(t, "HOOKHOST_SEED", rand.Uint64N(1_000_000))
	long := chaosTime(t)
	if long > 0 {
		t.Parallel()
	}
	plan := chaosPlan{seed: seed, server: fmt.Sprint("chaos", os.Getpid()), cpus: runtime.NumCPU(), brief: long == 0}
	t.Logf("HOOKHOST_SEED=%d HOOKHOST_CHAOS=%v", seed, long)
	w := newWreck(t)
	goesOn := whileLong(t, long)

	done := make(chan struct{})
	watched := w.watch()
	var around, jobs sync.WaitGroup
	around.Go(func() { w.endure(plan, done) })
	around.Go(func() { w.logProgress(done) })
	tally := &tally{ends: map[string]int{}}
	for lane := range lanes {
		jobs.Go(func() {
			for number := 0; plan.brief && lane+lanes*number < 7 || goesOn(); number++ {
				tally.add(w.carryOut(plan.job(lane, number)))
			}
		})
	}
	jobs.Wait()
	close(done)
	around.Wait()
	w.isIdle()
	watched()
	w.stop()
	w.leavesNothing()
	w.checkReports(tally.jobs)
	if faults, _ := w.sums(); faults == 0 {
		t.Error("no fault has come")
	}
	t.Logf("jobs:\n%sfaults:\n%sviolations: %d", table(tally.ends), table(w.faults), w.violations)
}

// chaosTime is how long jobs and faults go on, 0 for a few jobs.
func chaosTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("HOOKHOST_CHAOS")
	if text == "" {
		return 0
	}
	long, err := time.ParseDuration(text)
	must.NoError(t, err)
	return long
}

// carryOut has the watch know of a job as long as it is carried out.
func (w *wreck) carryOut(planned *plannedJob) *liveJob {
	j := &liveJob{plannedJob: planned, w: w}
	w.mu.Lock()
	w.live[j.id] = j
	w.mu.Unlock()
	if err := j.carryOut(); err != nil {
		w.wrong("job %s: %v; planned: %+v", j.id, err, *planned)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.live, j.id)
	if w.forgets() {
		w.unsaved[j.id] = true
	}
	return j
}

// tally counts jobs.
type tally struct {
	mu   sync.Mutex
	jobs []*liveJob
	ends map[string]int
}

func (c *tally) add(j *liveJob) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs = append(c.jobs, j)
	switch {
	case j.struck.Load():
		c.ends["by SIGKILL of run"]++
	case j.back:
		c.ends["sent back"]++
	default:
		c.ends[j.ends]++
	}
}

func table(counts map[string]int) string {
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&lines, "%6d  %s\n", counts[name], name)
	}
	return lines.String()
}

// logProgress logs a line now and then.
func (w *wreck) logProgress(done <-chan struct{}) {
	for began := time.Now(); ; {
		select {
		case <-done:
			return
		case <-time.After(30 * time.Second):
		}
		w.mu.Lock()
		live := len(w.live)
		w.mu.Unlock()
		faults, violations := w.sums()
		w.t.Logf("%v: %d faults, %d violations, %d jobs live", time.Since(began).Round(time.Second), faults, violations,
			live)
	}
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
func (w *wreck) mark(job string) string { return "HOOKHOST_CHAOS_JOB=" + w.prefix + "/" + job }

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
