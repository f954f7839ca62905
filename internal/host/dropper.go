package host

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

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

// Jobs that pbs_mom has silently dropped are ended here. When a later hook rejects execjob_begin,
// MoM forgets the job and sends no further event for it (openpbs src/server/req_quejob.c;
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

// armUnstarted sets the timer of a job that has begun and not started, or removes it. The caller is
// updating the record.
func (h *Host) armUnstarted(rec *jobstate.Record) {
	if !h.isUnstarted(rec, 0) {
		h.unstarted.drop(rec.Job.ID)
		return
	}
	h.unstarted.replace(rec.Job.ID, map[string]alarm{"": {at: rec.Begun.Add(dropAge)}})
}

// dropUnstarted is called when the job's timer is due.
func (h *Host) dropUnstarted(id string) {
	h.dropInTurn(id, notStarted, func(rec *jobstate.Record) bool {
		return h.isUnstarted(rec, dropAge) && h.isLost(rec)
	})
}

// makeRoom reports whether to repeat a begin that found no room, because jobs that pbs_mom has
// dropped were ended.
func (h *Host) makeRoom(ctx context.Context, e *event, v *Verdict) bool {
	return e.req.Event.Stage() == hostapi.StageBegin && v.Reject && v.Hook != "" && v.Kind == hostapi.KindBusy &&
		e.from.gone() == nil && h.dropForRoom(ctx, e.req.Job.ID, e.from) > 0
}

// dropForRoom makes room for a begin of pbs_mom: it ends dropped jobs, except the one with the id.
// It returns how many it ended.
func (h *Host) dropForRoom(ctx context.Context, id string, from caller) (dropped int) {
	dropped = h.drop(ctx, notStarted, func(rec *jobstate.Record) bool {
		return rec.Job.ID != id && h.isUnstarted(rec, roomAge) && h.isLost(rec)
	})
	dropped += h.drop(ctx, notListed, func(rec *jobstate.Record) bool {
		return rec.Job.ID != id && h.ofMoM(rec, from.home) && h.isLost(rec)
	})
	return dropped + h.drop(ctx, notGoingOn, func(rec *jobstate.Record) bool {
		return rec.Job.ID != id && h.isStuck(rec, from)
	})
}

// isStuck reports whether a dead pbs_mom began the job and nobody completes its start. The next
// pbs_mom has such a job and does nothing about it (openpbs src/resmom/catch_child.c,
// init_abort_jobs). The job stays at substate 41, and a restarted server gives its cpus to others
// (src/server/pbsd_init.c, pbsd_init_job). A job with a process is not stuck, nor is one for which
// MoM has a task. A sister cannot decide this for its part of a job.
func (h *Host) isStuck(rec *jobstate.Record, from caller) bool {
	var none hostapi.ProcessID
	if from.mom == none || rec.BegunBy == none || rec.BegunBy == from.mom || rec.MoMHome != from.home ||
		!rec.Job.MotherSuperior || rec.Phase == hostapi.PhaseExiting || h.opt.Processes.Alive(rec.BegunBy) {
		return false
	}
	entry := h.log.WithField("job", rec.Job.ID)
	starts, err := h.opt.PBSStarts(rec.Job, rec.MoMHome, from.mom)
	if err != nil || starts {
		entry.Debugf("the job's start may go on (%v)", err)
		return false
	}
	runs, err := h.opt.Populated(rec.Job.ID)
	if err != nil || runs {
		entry.Debugf("the job may run (%v)", err)
		return false
	}
	return true
}

// dropUnlisted ends the jobs of the pbs_mom with that home if they are neither in its list nor on
// its disk. For a job whose home is unknown, the disk alone decides.
func (h *Host) dropUnlisted(ctx context.Context, listed map[string]*hostapi.Job, home string) {
	h.drop(ctx, notListed, func(rec *jobstate.Record) bool {
		_, has := listed[rec.Job.ID]
		return !has && h.ofMoM(rec, home) && h.isLost(rec)
	})
}

// dropForgotten ends the jobs of the pbs_mom with that home that are not on its disk.
func (h *Host) dropForgotten(ctx context.Context, home string) {
	h.drop(ctx, notListed, func(rec *jobstate.Record) bool { return h.ofMoM(rec, home) && h.isLost(rec) })
}

// ofMoM reports whether the job belongs to the pbs_mom with that home and is old enough to be on
// its disk.
func (h *Host) ofMoM(rec *jobstate.Record, home string) bool {
	return (rec.MoMHome == home || rec.MoMHome == "") && h.isPBS(rec, dropAge)
}

// isPBS reports whether pbs_mom began the job here, at least age ago. An ending job must have been
// ending for that long: a MoM that is killed between epilogue and end does not send end.
func (h *Host) isPBS(rec *jobstate.Record, age time.Duration) bool {
	since := rec.Begun
	if rec.Phase == hostapi.PhaseExiting {
		since = h.clock.Time(rec.Ended)
	}
	return rec.PBS && !rec.Begun.IsZero() && time.Since(since) >= age
}

func (h *Host) isUnstarted(rec *jobstate.Record, age time.Duration) bool {
	return rec.Phase == hostapi.PhasePrerun && !rec.Kept && h.isPBS(rec, age)
}

// isLost reports whether MoM has no trace of the job on its disk.
func (h *Host) isLost(rec *jobstate.Record) bool {
	has, err := h.opt.PBSHas(rec.Job, rec.MoMHome)
	if err != nil {
		h.log.WithField("job", rec.Job.ID).Debugf("whether pbs_mom has the job cannot be told: %v", err)
	}
	return err == nil && !has
}

// drop ends the jobs that may be dropped and returns their number. If another event holds a job's
// turn, the job is dropped after that event and not counted: its owner may occupy the turn forever.
func (h *Host) drop(ctx context.Context, why string, may func(*jobstate.Record) bool) (dropped int) {
	recs := slices.DeleteFunc(h.opt.Store.List(), func(rec *jobstate.Record) bool { return !may(rec) })
	var count atomic.Int32
	eachAtOnce(recs, func(rec *jobstate.Record) {
		release := h.turns.try(rec.Job.ID)
		if release == nil {
			h.dropInTurn(rec.Job.ID, why, may)
			return
		}
		defer release()
		if h.dropOne(ctx, rec.Job.ID, why, may) {
			count.Add(1)
		}
	})
	return int(count.Load())
}

// dropInTurn waits in the background for the job's turn and then calls dropOne.
func (h *Host) dropInTurn(id, why string, may func(*jobstate.Record) bool) {
	h.inTurn(why, id, func(ctx context.Context) { h.dropOne(ctx, id, why, may) })
}

// dropOne ends a job if it may still be dropped, and reports whether nothing of it is left. The
// caller holds its turn.
func (h *Host) dropOne(ctx context.Context, id, why string, may func(*jobstate.Record) bool) bool {
	ctx = context.WithoutCancel(ctx)
	rec := h.opt.Store.Get(id)
	if rec == nil || !may(rec) {
		return false
	}
	if err := h.finishLeft(ctx, rec, why); err != nil {
		h.log.WithField("job", id).Error(hostapi.OneLine(err.Error()))
	}
	return h.opt.Store.Get(id) == nil // a hook that rejects the end keeps nothing
}
