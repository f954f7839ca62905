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

// MoM has a job on its disk a moment after it has accepted begin, usually milliseconds. Other
// hooks, and a server that sends a script, may make the moment longer. A job that was taken for
// dropped too early is begun once more by its prologue or launch (beginLate).
const (
	roomAge = time.Second
	dropAge = 30 * time.Second
)

const (
	notStarted = "pbs_mom has dropped the job after its begin"
	notListed  = "pbs_mom knows nothing of the job any more"
)

// dropper ends jobs that pbs_mom has dropped without a word. When a hook behind ours rejects
// execjob_begin, MoM forgets the job and sends nothing more for it (openpbs
// src/server/req_quejob.c; src/resmom/mom_comm.c, IM_JOIN_JOB). The job has cpus and memory here
// still. So MoM is asked whether it has the job (Options.PBSHas), on four occasions:
//
//	another job begins, too little room       jobs begun roomAge ago without prologue and launch,
//	                                          and that pbs_mom's begun dropAge ago, started or not
//	dropAge after a job's begin               that job, if it had neither
//	exechost_periodic of a pbs_mom            its jobs begun dropAge ago that its job_list does
//	                                          not name, started or not
//	dropAge after exechost_startup of one     its jobs begun dropAge ago, started or not
//
// The last is for a pbs_mom that was restarted. A sister without option -p then deletes its files
// of all jobs (openpbs src/resmom/catch_child.c, init_abort_jobs). MoM runs no hook for that, while
// the jobs' processes live on. The exechost_periodic that MoM sends at once finds the older jobs.
type dropper struct {
	store  *jobstate.Store
	pbsHas func(job *hostapi.Job, home string) (bool, error) // Options.PBSHas
	log    *logrus.Entry
	clock  jobstate.Clock
	turns  *queues
	host   dropping
	// unstarted has a timer of each job that has begun and not started.
	unstarted *timers
}

// dropping is what a dropper needs of the Host.
type dropping interface {
	// inTurn runs f in the job's turn, beside the caller.
	inTurn(purpose, id string, f func(ctx context.Context))
	// finishLeft ends a job whose turn the caller has.
	finishLeft(ctx context.Context, rec *jobstate.Record, why string) error
}

func newDropper(h *Host) *dropper {
	d := &dropper{store: h.opt.Store, pbsHas: h.opt.PBSHas, log: h.log, clock: h.clock, turns: &h.jobs, host: h}
	d.unstarted = newTimers(func(job, _ string, _ bool) { d.dropUnstarted(job) })
	return d
}

// forget takes the job's timer away.
func (d *dropper) forget(id string) { d.unstarted.drop(id) }

// stop takes all timers away for good.
func (d *dropper) stop() { d.unstarted.stop() }

// arm sets the timer of a job that has begun and not started, or takes it away. The caller is in
// the record's update.
func (d *dropper) arm(rec *jobstate.Record) {
	switch {
	case d.pbsHas == nil:
	case d.isUnstarted(rec, 0):
		d.unstarted.replace(rec.Job.ID, map[string]alarm{"": {at: rec.Begun.Add(dropAge)}})
	default:
		d.forget(rec.Job.ID)
	}
}

// dropUnstarted is called when the job's timer is due.
func (d *dropper) dropUnstarted(id string) {
	d.dropInTurn(id, notStarted, func(rec *jobstate.Record) bool { return d.isUnstarted(rec, dropAge) })
}

// dropForRoom ends jobs other than that with the id, for a job of the pbs_mom of that home, and
// returns how many.
func (d *dropper) dropForRoom(ctx context.Context, id, home string) (dropped int) {
	dropped = d.drop(ctx, notStarted, func(rec *jobstate.Record) bool {
		return rec.Job.ID != id && d.isUnstarted(rec, roomAge)
	})
	return dropped + d.drop(ctx, notListed, func(rec *jobstate.Record) bool {
		return rec.Job.ID != id && d.ofMoM(rec, home)
	})
}

// dropUnlisted ends the jobs of the pbs_mom of that home that it neither lists nor has on its disk.
// The disk alone decides about a job whose home is not known.
func (d *dropper) dropUnlisted(ctx context.Context, listed map[string]*hostapi.Job, home string) {
	d.drop(ctx, notListed, func(rec *jobstate.Record) bool {
		_, has := listed[rec.Job.ID]
		return !has && d.ofMoM(rec, home)
	})
}

// dropForgotten ends the jobs of the pbs_mom of that home that it does not have on its disk.
func (d *dropper) dropForgotten(ctx context.Context, home string) {
	d.drop(ctx, notListed, func(rec *jobstate.Record) bool { return d.ofMoM(rec, home) })
}

// ofMoM reports whether the job is one of the pbs_mom of that home and is old enough to be on its
// disk.
func (d *dropper) ofMoM(rec *jobstate.Record, home string) bool {
	return (rec.MoMHome == home || rec.MoMHome == "") && d.isPBS(rec, dropAge)
}

// isPBS reports whether the job is one that pbs_mom has begun here, so long ago at least. A job
// that is ending has ended so long ago: a MoM that is killed between epilogue and end sends no end.
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

// drop ends those of the jobs that may be dropped and that MoM does not have, and returns how many
// that were. A job whose turn somebody has is dropped behind that one, and not counted: its owner
// may have its turn all the time.
func (d *dropper) drop(ctx context.Context, why string, may func(*jobstate.Record) bool) (dropped int) {
	if d.pbsHas == nil {
		return 0
	}
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

// dropInTurn waits for the job's turn, beside the caller, and then does dropOne.
func (d *dropper) dropInTurn(id, why string, may func(*jobstate.Record) bool) {
	d.host.inTurn(why, id, func(ctx context.Context) { d.dropOne(ctx, id, why, may) })
}

// dropOne ends a job whose turn the caller has, if it may be dropped by then and MoM does not have
// it.
func (d *dropper) dropOne(ctx context.Context, id, why string, may func(*jobstate.Record) bool) bool {
	ctx = context.WithoutCancel(ctx)
	rec := d.store.Get(id)
	if rec == nil || !may(rec) {
		return false
	}
	entry := d.log.WithField("job", id)
	if has, err := d.pbsHas(rec.Job, rec.MoMHome); err != nil || has {
		if err != nil {
			entry.Debugf("whether pbs_mom has the job cannot be told: %v", err)
		}
		return false
	}
	err := d.host.finishLeft(ctx, rec, why)
	if err != nil {
		entry.Error(hostapi.OneLine(err.Error()))
	}
	return err == nil
}
