package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// isGone waits until the node has ended the job by itself. The job's run was killed, or its end was
// refused while the node was in trouble.
func (j *liveJob) isGone() error {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		phases, err := j.w.phases()
		phase, listed := phases[j.id]
		if err == nil && listed {
			err = fmt.Errorf("the job is listed as %s", phase)
		}
		err = errors.Join(err, j.check())
		waited := time.Since(began)
		if err == nil || waited > 5*time.Minute ||
			waited > time.Minute && !j.w.excuses(time.Now().Add(-time.Minute)) {
			return err
		}
		if !j.byRun && listed && phase != "exiting" && j.w.forgot(j.began) {
			j.event("execjob_end")
		}
	}
}

// check looks for what an ended job must not leave.
func (j *liveJob) check() error {
	if left := j.w.marked()[j.id]; len(left) > 0 {
		return fmt.Errorf("processes outlive their job: %s", describe(left))
	}
	for _, pattern := range []string{"/jobid/" + j.id, "/jobs/" + j.id} {
		if left := j.w.cgroups(pattern); len(left) > 0 {
			return fmt.Errorf("cgroups outlive their job: %v", left)
		}
	}
	return nil
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
	goroutines := func() int {
		text, err := w.metrics()
		if err != nil {
			return 0
		}
		return int(valueOf(w.t, text, "go_goroutines"))
	}
	rest := func() {
		w.recover()
		time.Sleep(2 * time.Second) // what a start takes for itself is given back
	}
	rest()
	long := w.daemonPID()
	open, running := files(), goroutines()
	if open == 0 || running == 0 {
		w.t.Fatalf("the daemon has %d files open and %d goroutines", open, running)
	}
	w.strikeDaemon(plannedStrike{victim: victimDaemon, means: byKill})
	must.Eventually(w.t, "the next daemon answers", func() bool {
		return w.daemonPID() != 0 && w.daemonPID() != long && w.command("jobs").Run() == nil
	})
	rest()
	what := fmt.Sprintf("the next daemon has %d files open and %d goroutines as well", open, running)
	must.Eventually(w.t, what, func() bool { return files() >= open && goroutines() >= running })
}

// leavesNothing looks for processes and files that the daemon has left.
func (w *wreck) leavesNothing() {
	w.t.Helper()
	for _, name := range victimHooks {
		left := slices.DeleteFunc(processesNamed(filepath.Join(built, "hooks", name)), func(pid int) bool {
			environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			return !bytes.Contains(environ, []byte(w.dir)) // another test's
		})
		if len(left) > 0 {
			w.wrong("the daemon has left hooks: %s", describe(left))
		}
	}
	must.NoError(w.t, filepath.WalkDir(w.dir, func(path string, entry fs.DirEntry, err error) error {
		record := strings.HasPrefix(path, w.path("run/jobs/")) && !entry.IsDir()
		if id, is := strings.CutSuffix(filepath.Base(path), ".json.damaged"); is && w.harmed[id] {
			record = false
		}
		node := filepath.Dir(path) == w.path("run/aux")
		if err == nil && (entry.Type()&fs.ModeSocket != 0 || record || node) {
			w.wrong("left: %s", path)
		}
		return err
	}))
	if left, _ := filepath.Glob(fmt.Sprintf("/var/tmp/pbs.*.chaos%d*", os.Getpid())); len(left) > 0 {
		w.wrong("left: %v", left)
	}
}

// checkReports asserts that each job whose program has started has one report. A job whose run
// was killed before that may not be there, nor one whose record or report was damaged.
func (w *wreck) checkReports(jobs []*liveJob) {
	w.t.Helper()
	reports := w.reported()
	for _, job := range jobs {
		if n := reports[job.id]; n > 1 || n == 0 && job.begun && !w.harmed[job.id] {
			w.wrong("job %s has %d reports", job.id, n)
		}
	}
}
