package host

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// MoM writes a job to its disk shortly after it has accepted begin, usually within milliseconds.
// Other hooks, and a server that sends a script, may delay that. If a job is dropped too early, its
// prologue or launch begins it again (beginLate).
const (
	roomAge = time.Second
	dropAge = 30 * time.Second
)

const (
	notStarted = "pbs_mom has dropped the job after its begin"
	notListed  = "pbs_mom knows nothing of the job any more"
	notGoingOn = "the pbs_mom that started the job has died, and the next one does not go on with the start"
)

// dropper ends jobs that pbs_mom has silently dropped. When a later hook rejects execjob_begin, MoM
// forgets the job and sends no further event for it (openpbs src/server/req_quejob.c;
// src/resmom/mom_comm.c, IM_JOIN_JOB). Here, the job still holds cpus and memory. So MoM is asked
// whether it has the job (Options.PBSHas), on four occasions:
//
//	another job begins, too little room       jobs begun roomAge ago without prologue and launch,
//	                                          that pbs_mom's begun dropAge ago, started or not,
//	                                          and those that it has and does not start (isStuck)
//	dropAge after a job's begin               that job, if it had neither
//	exechost_periodic of a pbs_mom            its jobs begun dropAge ago that its job_list does
//	                                          not name, started or not
//	dropAge after exechost_startup of one     its jobs begun dropAge ago, started or not
//
// The last occasion serves a pbs_mom that was restarted. Without option -p, a sister then deletes
// its files of all jobs (openpbs src/resmom/catch_child.c, init_abort_jobs). MoM runs no hook for
// that, and the jobs' processes survive. The exechost_periodic that MoM sends at once finds the
// older jobs.
type dropper struct {
	store *jobstate.Store
	opt   *Options // PBSHas, PBSStarts, Populated, Processes
	log   *logrus.Entry
	clock jobstate.Clock
	turns *turns
	host  dropping
	// unstarted holds a timer for each job that has begun and not started.
	unstarted *timers
}

// dropping is the part of Host that a dropper needs.
type dropping interface {
	// inTurn runs f in the background, in the job's turn.
	inTurn(purpose, id string, f func(ctx context.Context))
	// finishLeft ends a job. The caller holds its turn.
	finishLeft(ctx context.Context, rec *jobstate.Record, why string) error
}

func newDropper(h *Host) *dropper {
	d := &dropper{store: h.opt.Store, opt: &h.opt, log: h.log, clock: h.clock, turns: &h.turns, host: h}
	d.unstarted = newTimers(func(_, job string) { d.dropUnstarted(job) })
	return d
}

// forget removes the job's timer.
func (d *dropper) forget(id string) { d.unstarted.drop(id) }

// stop removes all timers for good.
func (d *dropper) stop() { d.unstarted.stop() }

// arm sets the timer of a job that has begun and not started, or removes it. The caller is updating
// the record.
func (d *dropper) arm(rec *jobstate.Record) {
	switch {
	case d.opt.PBSHas == nil:
	case d.isUnstarted(rec, 0):
		d.unstarted.replace(rec.Job.ID, map[string]alarm{"": {at: rec.Begun.Add(dropAge)}})
	default:
		d.forget(rec.Job.ID)
	}
}

// dropUnstarted is called when the job's timer is due.
func (d *dropper) dropUnstarted(id string) {
	d.dropInTurn(id, notStarted, func(rec *jobstate.Record) bool {
		return d.isUnstarted(rec, dropAge) && d.isLost(rec)
	})
}

// makeRoom reports whether a begin for which there was no room is worth another try, because
// jobs that pbs_mom has dropped were ended.
func (h *Host) makeRoom(ctx context.Context, e *event, v *Verdict) bool {
	return e.req.Event.Stage() == hostapi.StageBegin && v.Reject && v.Hook != "" && v.Kind == hostapi.KindBusy &&
		e.from.gone() == nil && h.dropper.dropForRoom(ctx, e.req.Job.ID, e.from) > 0
}

// dropForRoom makes room for a begin of pbs_mom: it ends dropped jobs, except the one with the id.
// It returns how many it ended.
func (d *dropper) dropForRoom(ctx context.Context, id string, from caller) (dropped int) {
	dropped = d.drop(ctx, notStarted, func(rec *jobstate.Record) bool {
		return rec.Job.ID != id && d.isUnstarted(rec, roomAge) && d.isLost(rec)
	})
	dropped += d.drop(ctx, notListed, func(rec *jobstate.Record) bool {
		return rec.Job.ID != id && d.ofMoM(rec, from.home) && d.isLost(rec)
	})
	return dropped + d.drop(ctx, notGoingOn, func(rec *jobstate.Record) bool {
		return rec.Job.ID != id && d.isStuck(rec, from)
	})
}

// isStuck reports whether a dead pbs_mom began the job and nobody completes its start. The next
// pbs_mom has such a job and does nothing about it (openpbs src/resmom/catch_child.c,
// init_abort_jobs). The job stays at substate 41, and a restarted server gives its cpus to others
// (src/server/pbsd_init.c, pbsd_init_job). A job with a process is not stuck, nor is one for which
// MoM has a task. A sister cannot decide this for its part of a job.
func (d *dropper) isStuck(rec *jobstate.Record, from caller) bool {
	var none hostapi.ProcessID
	if d.opt.PBSStarts == nil || d.opt.Populated == nil || from.mom == none || rec.BegunBy == none ||
		rec.BegunBy == from.mom || rec.MoMHome != from.home || !rec.Job.MotherSuperior ||
		rec.Phase == jobstate.PhaseExiting || d.opt.Processes.Alive(rec.BegunBy) {
		return false
	}
	entry := d.log.WithField("job", rec.Job.ID)
	starts, err := d.opt.PBSStarts(rec.Job, rec.MoMHome, from.mom)
	if err != nil || starts {
		entry.Debugf("the job's start may go on (%v)", err)
		return false
	}
	runs, err := d.opt.Populated(rec.Job.ID)
	if err != nil || runs {
		entry.Debugf("the job may run (%v)", err)
		return false
	}
	return true
}

// dropUnlisted ends the jobs of the pbs_mom with that home if they are neither in its list nor on
// its disk. For a job whose home is unknown, the disk alone decides.
func (d *dropper) dropUnlisted(ctx context.Context, listed map[string]*hostapi.Job, home string) {
	d.drop(ctx, notListed, func(rec *jobstate.Record) bool {
		_, has := listed[rec.Job.ID]
		return !has && d.ofMoM(rec, home) && d.isLost(rec)
	})
}

// dropForgotten ends the jobs of the pbs_mom with that home that are not on its disk.
func (d *dropper) dropForgotten(ctx context.Context, home string) {
	d.drop(ctx, notListed, func(rec *jobstate.Record) bool { return d.ofMoM(rec, home) && d.isLost(rec) })
}

// ofMoM reports whether the job belongs to the pbs_mom with that home and is old enough to be on
// its disk.
func (d *dropper) ofMoM(rec *jobstate.Record, home string) bool {
	return (rec.MoMHome == home || rec.MoMHome == "") && d.isPBS(rec, dropAge)
}

// isPBS reports whether pbs_mom began the job here, at least age ago. An ending job must have been
// ending for that long: a MoM that is killed between epilogue and end does not send end.
func (d *dropper) isPBS(rec *jobstate.Record, age time.Duration) bool {
	since := rec.Begun
	if rec.Phase == jobstate.PhaseExiting {
		since = d.clock.Time(rec.Ended)
	}
	return rec.PBS && !rec.Begun.IsZero() && time.Since(since) >= age
}

func (d *dropper) isUnstarted(rec *jobstate.Record, age time.Duration) bool {
	return rec.Phase == jobstate.PhasePrerun && !rec.Kept && d.isPBS(rec, age)
}

// isLost reports whether MoM has no trace of the job on its disk.
func (d *dropper) isLost(rec *jobstate.Record) bool {
	if d.opt.PBSHas == nil {
		return false
	}
	has, err := d.opt.PBSHas(rec.Job, rec.MoMHome)
	if err != nil {
		d.log.WithField("job", rec.Job.ID).Debugf("whether pbs_mom has the job cannot be told: %v", err)
	}
	return err == nil && !has
}

// drop ends the jobs that may be dropped and returns their number. If another event holds a job's
// turn, the job is dropped after that event and not counted: its owner may occupy the turn forever.
func (d *dropper) drop(ctx context.Context, why string, may func(*jobstate.Record) bool) (dropped int) {
	recs := slices.DeleteFunc(d.store.List(), func(rec *jobstate.Record) bool { return !may(rec) })
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, rec := range recs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			release := d.turns.try(rec.Job.ID)
			if release == nil {
				d.dropInTurn(rec.Job.ID, why, may)
				return
			}
			defer release()
			if d.dropOne(ctx, rec.Job.ID, why, may) {
				mu.Lock()
				dropped++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return dropped
}

// dropInTurn waits in the background for the job's turn and then calls dropOne.
func (d *dropper) dropInTurn(id, why string, may func(*jobstate.Record) bool) {
	d.host.inTurn(why, id, func(ctx context.Context) { d.dropOne(ctx, id, why, may) })
}

// dropOne ends a job if it may still be dropped. The caller holds its turn.
func (d *dropper) dropOne(ctx context.Context, id, why string, may func(*jobstate.Record) bool) bool {
	ctx = context.WithoutCancel(ctx)
	rec := d.store.Get(id)
	if rec == nil || !may(rec) {
		return false
	}
	err := d.host.finishLeft(ctx, rec, why)
	if err != nil {
		d.log.WithField("job", id).Error(hostapi.OneLine(err.Error()))
	}
	return err == nil
}
