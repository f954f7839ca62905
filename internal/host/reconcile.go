package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

const (
	runnerDied = "the process that ran this job died"
	hostDied   = "hookhost died while it set up this job"
	endAgain   = "the end of this job was finished after hookhost had died over it"
	endOnce    = "the end of this job had to be carried out once more"
)

// over reports whether the record's job must be ended. why becomes a note in its report.
func (h *Host) over(rec *jobstate.Record) (over bool, why string) {
	earlier := rec.Host != h.opt.Self // the previous daemon
	_, ending := rec.Timers[endTimer]
	switch {
	case ending && earlier:
		return true, endAgain
	case ending:
		return true, endOnce
	case h.runnerGone(rec.Runner):
		return true, runnerDied
	case earlier && rec.Begun.IsZero(): // MoM got no answer to its begin, so it has rejected the job
		return true, hostDied
	}
	return false, ""
}

// runnerGone reports whether the process whose death ends a job has died.
func (h *Host) runnerGone(runner *hostapi.ProcessID) bool {
	return runner != nil && !h.opt.Processes.Alive(*runner)
}

// adoptRecords makes this host the owner of all live jobs. Open calls it before the first event. A
// job that is over keeps the name of the previous daemon until Reconcile ends it.
func (h *Host) adoptRecords() {
	var ids []string
	for _, rec := range h.opt.Store.List() {
		if over, _ := h.over(rec); !over {
			ids = append(ids, rec.Job.ID)
		}
	}
	h.change(func(rec *jobstate.Record) {
		rec.Host = h.opt.Self
		h.watchRunner(rec.Job.ID, rec.Runner)
	}, ids...)
	if len(ids) > 0 {
		h.log.WithField("jobs", len(ids)).Info("jobs of the previous daemon continue")
	}
}

// Reconcile checks the records of all jobs on this machine. It ends jobs whose runner has died, and
// jobs during whose begin or end a daemon died. It ends jobs again whose end has failed here. It
// writes waiting reports if there is room. It runs when a host starts and at each periodic. Errors
// of single jobs are joined.
func (h *Host) Reconcile(ctx context.Context) error {
	h.drain()
	left := slices.DeleteFunc(h.opt.Store.List(), func(rec *jobstate.Record) bool {
		over, _ := h.over(rec)
		return !over
	})
	var errs []error
	var mu sync.Mutex
	eachAtOnce(left, func(rec *jobstate.Record) {
		if err := h.endLeft(ctx, rec.Job.ID); err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
	})
	return errors.Join(errs...)
}

// endLeft waits for the turn of a job that is over, and ends it if it still is. The reason becomes
// a note.
func (h *Host) endLeft(ctx context.Context, id string) error {
	end, ok := h.beginEvent()
	if !ok {
		return ErrClosed
	}
	defer end()
	release, err := h.turns.acquire(ctx, id, course)
	if err != nil {
		return fmt.Errorf("end job %s: wait for its turn: %w", id, err)
	}
	defer release()
	rec := h.opt.Store.Get(id)
	if rec == nil {
		return nil
	}
	over, why := h.over(rec)
	if !over {
		return nil
	}
	if err := h.finishLeft(context.WithoutCancel(ctx), rec, why); err != nil {
		return fmt.Errorf("end job %s: %w", id, err)
	}
	return nil
}

// finishLeft sends a job's last events in place of its MoM. The caller holds the job's turn.
func (h *Host) finishLeft(ctx context.Context, rec *jobstate.Record, why string) error {
	return h.finishRun(ctx, rec, why, rec.PBS)
}

// finishRun is finishLeft, except that again suppresses the report of a start that failed, because
// the job starts again. The jobs of pbs_mom do.
func (h *Host) finishRun(ctx context.Context, rec *jobstate.Record, why string, again bool) error {
	id := rec.Job.ID
	h.log.WithField("job", id).Warn("ending a job: " + why)
	h.change(func(r *jobstate.Record) {
		r.Host = h.opt.Self
		r.AddNote(why)
	}, id)
	events := []hostapi.Event{hostapi.EventEpilogue, hostapi.EventEnd}
	if rec.Begun.IsZero() || again && rec.Launched.IsZero() {
		events = []hostapi.Event{hostapi.EventAbort}
	}
	var errs []error
	for _, e := range events {
		job := *rec.Job
		job.ResourcesUsed = nil // from begin; nobody has measured since
		v, err := h.carryOut(ctx, &hostapi.Request{Event: e, Node: h.opt.Node, Job: &job}, caller{})
		if err == nil && v.Reject {
			err = errors.New(v.Message)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", e, err))
		}
	}
	return errors.Join(errs...)
}

// watchRunner ends the job when its runner dies.
func (h *Host) watchRunner(id string, runner *hostapi.ProcessID) {
	if runner == nil {
		return
	}
	ctx := h.runners.watch(h.ctx, id)
	who := *runner
	h.goBackground(func() {
		if err := h.opt.Processes.Wait(ctx, who); err != nil {
			if ctx.Err() == nil {
				h.log.WithField("job", id).Errorf("wait for process %d: %v", who.PID, err)
			}
			return
		}
		// At the job's end, forget cancels ctx, so nothing below may depend on it.
		if err := h.endLeft(h.ctx, id); err != nil && !errors.Is(err, ErrClosed) {
			h.log.WithField("job", id).Error(hostapi.OneLine(err.Error()))
		}
	})
}

// runnerWatch holds the functions that stop watching the runners of jobs. The zero value has none.
type runnerWatch struct {
	mu    sync.Mutex
	byJob map[string]context.CancelFunc
}

// watch returns the context of the job's watch and replaces an earlier one.
func (w *runnerWatch) watch(parent context.Context, job string) context.Context {
	ctx, cancel := context.WithCancel(parent)
	w.cancel(job)
	w.mu.Lock()
	defer w.mu.Unlock()
	put(&w.byJob, job, cancel)
	return ctx
}

func (w *runnerWatch) cancel(job string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if cancel := w.byJob[job]; cancel != nil {
		cancel()
		delete(w.byJob, job)
	}
}
