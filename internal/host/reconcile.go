package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

const (
	momDied  = "the process that ran this job died"
	hostDied = "hookhost died while it set up this job"
	endAgain = "the end of this job was finished after hookhost had died over it"
	endOnce  = "the end of this job had to be carried out once more"
)

// atOnce bounds how many jobs Reconcile ends at the same time.
const atOnce = 8

// fate is what Reconcile does with a record.
type fate int

const (
	leave  fate = iota // another host's, which lives, or our own and in order
	adopt              // its host died, the job lives on
	finish             // it is over
)

// fateOf decides about a record; why is the note that its report gets.
func (h *Host) fateOf(rec *jobstate.Record) (f fate, why string) {
	own := rec.Host == h.opt.Self
	if !own && h.opt.Processes.Alive(rec.Host) {
		return leave, ""
	}
	if _, ending := rec.Timers[endTimer]; ending && own {
		return finish, endOnce
	} else if ending {
		return finish, endAgain
	}
	if rec.MoM != nil && rec.Head == "" && !h.opt.Processes.Alive(*rec.MoM) {
		return finish, momDied
	}
	switch {
	case own:
		return leave, ""
	case rec.Begun.IsZero():
		// MoM got no answer to its begin, and so has rejected the job.
		return finish, hostDied
	case rec.MoM == nil && !h.opt.Daemon:
		return leave, "" // pbs_mom's; the next daemon takes it
	}
	return adopt, ""
}

// Reconcile looks through the records of all jobs on this machine: it ends those whose MoM or host has died, takes over
// those that live without a host, ends once more those whose end has failed here, and leaves alone what another living host
// carries. It is for the start of a host and is repeated after each periodic; it does nothing where there is nothing to
// do. Errors of single jobs are joined.
func (h *Host) Reconcile(ctx context.Context) error {
	errs := []error{h.payOwed(ctx)}
	recs, err := h.opt.Store.List(ctx)
	errs = append(errs, err)
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, rec := range recs {
		f, why := h.fateOf(rec)
		if f == leave {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := h.resolve(ctx, rec.Job.ID, f, why); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// resolve does what was decided, if it is still to be done when the job's turn has come.
func (h *Host) resolve(ctx context.Context, id string, f fate, why string) error {
	if !h.enter(&h.begun) {
		return ErrClosed
	}
	defer h.begun.Done()
	release, err := h.jobs.take(ctx, id, course)
	if err != nil {
		return err
	}
	defer release()
	ctx = h.detach(ctx)
	rec, err := h.claim(ctx, id, f)
	if err != nil || rec == nil {
		return err
	}
	if f == finish {
		if err := h.finishLeft(ctx, rec, why); err != nil {
			return fmt.Errorf("end job %s: %w", id, err)
		}
		return nil
	}
	h.watchMoM(id, rec.MoM)
	h.log.WithField("job", id).Info("job taken over from a host that died")
	return nil
}

var errNotOurs = errors.New("decided otherwise")

// claim makes this host the record's, in one transaction with a second look at it: of several hosts that find it, one
// gets it. Nil without an error when it is not to be had any more.
func (h *Host) claim(ctx context.Context, id string, f fate) (*jobstate.Record, error) {
	var claimed *jobstate.Record
	err := h.opt.Store.Update(ctx, id, func(rec *jobstate.Record) (*jobstate.Record, error) {
		if claimed = nil; rec == nil {
			return nil, nil
		}
		if now, _ := h.fateOf(rec); now != f {
			return nil, errNotOurs
		}
		rec.Host = h.opt.Self
		if claimed = rec; f == adopt {
			h.timers.drop(id) // they are of a time before another host had the job
			h.arm(rec)
		}
		return rec, nil
	})
	if errors.Is(err, errNotOurs) {
		return nil, nil
	}
	return claimed, err
}

// finishLeft sends a job's last events in place of its MoM. The caller has the job's turn.
func (h *Host) finishLeft(ctx context.Context, rec *jobstate.Record, why string) error {
	id := rec.Job.ID
	h.log.WithField("job", id).Warn("ending a job: " + why)
	if err := h.change(ctx, id, func(r *jobstate.Record) { r.AddNote(why) }); err != nil {
		return err
	}
	events := []hostapi.Event{hostapi.EventEpilogue, hostapi.EventEnd}
	unstarted := rec.Launched.IsZero() && (rec.PBS || rec.Head != "" && !rec.Kept)
	if rec.Begun.IsZero() || unstarted { // a start that came to nothing is no run to report
		events = []hostapi.Event{hostapi.EventAbort}
	}
	var errs []error
	for _, e := range events {
		job := *rec.Job
		job.ResourcesUsed = nil // of begin; nobody has measured since
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

// watchMoM ends the job when the process that answers for it dies. A MoM within this very process needs no watch.
func (h *Host) watchMoM(id string, mom *hostapi.ProcessID) {
	if mom == nil || *mom == h.opt.Self {
		return
	}
	ctx, cancel := context.WithCancel(h.ctx)
	h.mu.Lock()
	if old := h.waits[id]; old != nil {
		old()
	}
	h.waits[id] = cancel
	h.mu.Unlock()
	who := *mom
	h.behindIt(func() {
		if err := h.opt.Processes.Wait(ctx, who); err != nil {
			if ctx.Err() == nil {
				h.log.WithField("job", id).Errorf("wait for process %d: %v", who.PID, err)
			}
			return
		}
		// forget, at the end of the job, calls cancel: nothing below may depend on ctx.
		if err := h.resolve(h.ctx, id, finish, momDied); err != nil && !errors.Is(err, ErrClosed) {
			h.log.WithField("job", id).Error(line(err.Error()))
		}
	})
}

func (h *Host) unwatchMoM(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cancel := h.waits[id]; cancel != nil {
		cancel()
		delete(h.waits, id)
	}
}
