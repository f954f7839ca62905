package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/proc"
)

// see checks a job, takes the actions that are due and returns when to check again. Meanwhile the
// host holds back the job's events. said is a line to log later, because other jobs may be waiting
// for their signals.
//
// The host gets the state after the action. If this program or the host dies in between, the action
// is repeated. So a signal may be sent twice but is never lost.
func (h *hook) see(ctx context.Context, job *hostapi.Job) (u *hostapi.JobUpdate, said string) {
	if _, hangs := h.seeing.LoadOrStore(job.ID, true); hangs { // an earlier check hangs
		return callLater(job), ""
	}
	defer h.seeing.Delete(job.ID)
	s, told := h.stateOf(job)
	was := s.Next
	var o orders
	j, err := h.tree.Job(job.ID)
	if err != nil {
		h.logOf(job.ID).Error(err)
	} else if s.Next > 0 && job.Elapsed >= s.Next {
		f := h.measure(j, job, s)
		s.progress, o = h.policy.step(s.Limits, s.progress, f)
		var notes []string
		notes, said = h.carryOut(ctx, j, job, s, o, f.PIDs)
		o.Notes = append(o.Notes, notes...)
	}
	u = &hostapi.JobUpdate{CallAtElapsed: s.Next, JobStderr: append(told, o.Lines...), Diag: o.Diag, Notes: o.Notes}
	same := *s
	if s.Stage == running { // a check alone is not worth a write, since the next may come early
		same.Next = was
	}
	if !bytes.Equal(same.encode(), job.State) {
		u.State, u.WalltimeLimit = s.encode(), s.walltimeLimit()
	}
	return u, said
}

// measure reads the facts about a job that is due. If the kernel does not provide a fact, measure
// assumes that the job is using its time.
func (h *hook) measure(j *cgroup.Job, job *hostapi.Job, s *state) facts {
	f := facts{
		Elapsed: job.Elapsed, Up: time.Since(h.started), Suspended: job.Phase == hostapi.PhaseSuspended,
	}
	if s.Stage == running {
		h.measureRunning(j, job, s, &f)
		return f
	}
	f.Grace = h.policy.grace(job.KillDelay)
	pids, err := j.Processes()
	f.Alive = len(pids)
	if err != nil && !errors.Is(err, cgroup.ErrNotFound) {
		h.logOf(j.ID()).Error(err)
		f.Alive = max(f.Alive, 1)
	}
	for _, pid := range pids {
		if proc.DumpsCore(h.roots.Proc, pid) {
			f.Dumping++
		}
	}
	return f
}

// measureRunning is the part of measure for a job that is not being ended. It checks for processes
// only if the job exceeds a limit.
func (h *hook) measureRunning(j *cgroup.Job, job *hostapi.Job, s *state, f *facts) {
	if s.Limits.CPUT > 0 {
		f.CPUs = h.cpus(j)
		f.CPU, f.Uncounted = h.cpuTime(j)
	}
	if s.Limits.exceeded(*f) == "" {
		return
	}
	f.Grace = h.policy.grace(job.KillDelay)
	var err error
	if f.PIDs, err = j.Entered(); err == nil && len(f.PIDs) > 0 {
		f.Alive = len(f.PIDs)
		return
	}
	populated, err := j.Populated() // finds processes that somebody has moved by hand; ignores zombies
	if err != nil {
		h.logOf(j.ID()).Error(err)
	}
	if populated || err != nil {
		f.Alive = 1
	}
}

// cpuTime returns the cpu time that the job has used, or nil if that is not known. uncounted means
// that this node does not count cpu time.
func (h *hook) cpuTime(j *cgroup.Job) (used *time.Duration, uncounted bool) {
	sum, err := j.CPUTime()
	switch {
	case errors.Is(err, cgroup.ErrNotFound):
		sum = 0
	case err != nil:
		h.logOf(j.ID()).Errorf("cput is not looked at: %v", err)
		return nil, errors.Is(err, cgroup.ErrUnsupported)
	}
	return &sum, false
}

// killTime is how long a check waits for killed processes to disappear. The next check deals with
// the rest.
const killTime = 50 * time.Millisecond

// carryOut carries out the orders. Failures are logged, and the next stage tries again. notes are
// for the report, and said is for the log later.
func (h *hook) carryOut(ctx context.Context, j *cgroup.Job, job *hostapi.Job, s *state, o orders,
	pids []int) (notes []string, said string) {
	log := h.logOf(j.ID())
	if o.Hasten {
		if err := j.Hasten(); err != nil {
			log.Error(err)
		}
	}
	for _, w := range o.Signals {
		if note := h.warn(j, job, w); note != "" {
			notes = append(notes, note)
		}
	}
	var err error
	switch o.Do {
	case terminate:
		said = "SIGTERM: " + s.Reason
		// A stopped process handles SIGTERM only when it continues.
		err = errors.Join(j.Hasten(), j.SignalAll(ctx, pids, unix.SIGTERM, unix.SIGCONT))
	case killOthers:
		err = h.killOthers(j, job)
	case kill:
		if s.Tries == 1 {
			said = "SIGKILL: " + s.Reason
		}
		var result cgroup.KillResult
		short, cancel := context.WithTimeout(ctx, killTime)
		result, err = j.Kill(short)
		cancel()
		for _, note := range result.Notes() {
			log.Warn(note)
			notes = append(notes, note)
		}
	}
	if err != nil && !errors.Is(err, cgroup.ErrNotEmpty) && !errors.Is(err, cgroup.ErrNotFound) {
		log.Error(err)
	}
	if !o.GiveUp {
		return notes, said
	}
	if pids, err := j.Processes(); err == nil && len(pids) > 0 && !proc.Runnable(h.roots.Proc, pids) {
		text := h.unkillableText(pids)
		log.Error(text)
		notes = append(notes, text)
	}
	return notes, said
}

// killOthers sends SIGKILL to all processes except those that dump core and the job's leading
// program. If the leading program died, the whole job would end and be killed.
func (h *hook) killOthers(j *cgroup.Job, job *hostapi.Job) error {
	pids, err := j.Processes()
	if err != nil {
		return err
	}
	shell, leads := h.shell(pids, job)
	_, err = j.SignalSome(unix.SIGKILL,
		func(pid int) bool { return (!leads || pid != shell.PID) && !proc.DumpsCore(h.roots.Proc, pid) })
	return err
}

// warn sends a warning's signal. It returns a note for the report.
func (h *hook) warn(j *cgroup.Job, job *hostapi.Job, w config.Warning) (note string) {
	name := config.SignalName(w.Signal)
	var err error
	if !w.Shell {
		err = j.SignalEach(w.Signal)
	} else {
		var sent int
		if sent, err = h.signalShell(j, job, w); err == nil && sent == 0 {
			return fmt.Sprintf("warning %s: %s was not sent, as the job's leading shell was not found", w, name)
		}
	}
	if err != nil && !errors.Is(err, cgroup.ErrNotFound) {
		h.logOf(j.ID()).Error(err)
		return fmt.Sprintf("warning %s: %s was not sent to every process: %v", w, name, firstLine(err))
	}
	to := "every process"
	if w.Shell {
		to = "the leading shell"
	}
	return fmt.Sprintf("warning %s: %s was sent to %s", w, name, to) // the shell may end because of the signal
}

func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}
