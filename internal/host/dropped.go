package host

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// Jobs that pbs_mom has dropped without a word. When a hook behind ours rejects execjob_begin, MoM forgets the job and sends nothing more
// for it (openpbs src/server/req_quejob.c; src/resmom/mom_comm.c, IM_JOIN_JOB), while the job has cpus and memory here. So MoM is asked
// whether it has the job (Options.PBSHas), on four occasions:
//
//	another job begins, too little room       jobs begun roomAge ago without prologue and launch,
//	                                          and that pbs_mom's begun dropAge ago, started or not
//	dropAge after a job's begin               that job, if it had neither
//	exechost_periodic of a pbs_mom            its jobs begun dropAge ago that its job_list does
//	                                          not name, started or not
//	dropAge after exechost_startup of one     its jobs begun dropAge ago, started or not
//
// The last is for a pbs_mom that was restarted. A sister without option -p deletes its files of all
// jobs then (openpbs src/resmom/catch_child.c, init_abort_jobs) and runs no hook, while the jobs'
// processes live on. The exechost_periodic that MoM sends at once finds the older jobs.
//
// MoM has a job on its disk a moment after it has accepted begin, usually milliseconds; that moment is the time of other hooks, and of a
// server that sends a script. A job that was taken for dropped too early is begun once more by its prologue or launch (beginLate).
const (
	roomAge = time.Second
	dropAge = 30 * time.Second
)

const (
	notStarted = "pbs_mom has dropped the job after its begin"
	notListed  = "pbs_mom knows nothing of the job any more"
)

// beginWithRoom is begin, once more where there is room only without jobs that MoM has dropped.
func (h *Host) beginWithRoom(ctx context.Context, req *hostapi.Request, from caller) (*Verdict, error) {
	v, err := h.begin(ctx, req, from)
	if err != nil || !v.Reject || v.Hook == "" || v.Kind != hostapi.KindBusy || from.gone() != nil {
		return v, err
	}
	dropped := h.drop(ctx, notStarted, func(rec *jobstate.Record) bool {
		return rec.Job.ID != req.Job.ID && h.unstarted(rec, roomAge)
	})
	dropped += h.drop(ctx, notListed, func(rec *jobstate.Record) bool {
		return rec.Job.ID != req.Job.ID && h.ofMoM(rec, from.home)
	})
	if dropped == 0 {
		return v, nil
	}
	return h.begin(ctx, req, from)
}

// armStart sets the timer of a job that has begun and not started, or takes it away. Like arm, it is called inside the record's update.
func (h *Host) armStart(rec *jobstate.Record) {
	switch {
	case h.opt.PBSHas == nil:
	case h.unstarted(rec, 0):
		h.starts.replace(rec.Job.ID, map[string]alarm{"": {at: rec.Begun.Add(dropAge)}})
	default:
		h.starts.drop(rec.Job.ID)
	}
}

// dropUnstarted is called when the job's timer rings.
func (h *Host) dropUnstarted(id string) {
	h.dropInTurn(id, notStarted, func(rec *jobstate.Record) bool { return h.unstarted(rec, dropAge) })
}

// dropInTurn waits for the job's turn, beside the caller, and then does dropOne.
func (h *Host) dropInTurn(id, why string, may func(*jobstate.Record) bool) {
	h.inTurn(why, id, func() { h.dropOne(h.ctx, id, why, may) })
}

// dropUnlisted ends the jobs of the pbs_mom of that home that it does not list any more and does not have on its disk either. Of a job whose
// home is not known its disk alone tells.
func (h *Host) dropUnlisted(ctx context.Context, listed map[string]*hostapi.Job, home string) {
	h.drop(ctx, notListed, func(rec *jobstate.Record) bool {
		_, has := listed[rec.Job.ID]
		return !has && h.ofMoM(rec, home)
	})
}

// dropForgotten ends the jobs of the pbs_mom of that home that it does not have on its disk any
// more.
func (h *Host) dropForgotten(home string) {
	h.drop(h.ctx, notListed, func(rec *jobstate.Record) bool { return h.ofMoM(rec, home) })
}

// ofMoM tells whether the job is one of the pbs_mom of that home and is old enough to be on its
// disk.
func (h *Host) ofMoM(rec *jobstate.Record, home string) bool {
	return (rec.MoMHome == home || rec.MoMHome == "") && h.isPBS(rec, dropAge)
}

// isPBS tells whether the job is one that pbs_mom has begun here, so long ago at least. A job that is
// ending has ended so long ago: a MoM that is killed between epilogue and end sends no end.
func (h *Host) isPBS(rec *jobstate.Record, age time.Duration) bool {
	since := rec.Begun
	if rec.Phase == jobstate.PhaseExiting {
		since = h.clock.Time(rec.Ended)
	}
	return rec.PBS && !rec.Begun.IsZero() && time.Since(since) >= age
}

func (h *Host) unstarted(rec *jobstate.Record, age time.Duration) bool {
	return rec.Phase == jobstate.PhasePrerun && !rec.Kept && h.isPBS(rec, age)
}

// drop ends those of the jobs that may be dropped and that MoM does not have, and returns how many
// that were. A job whose turn somebody has is dropped behind that one, and not counted: its owner
// may have its turn all the time.
func (h *Host) drop(ctx context.Context, why string, may func(*jobstate.Record) bool) (dropped int) {
	if h.opt.PBSHas == nil {
		return 0
	}
	recs := slices.DeleteFunc(h.opt.Store.List(), func(rec *jobstate.Record) bool { return !may(rec) })
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, rec := range recs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			release := h.jobs.try(rec.Job.ID)
			if release == nil {
				h.dropInTurn(rec.Job.ID, why, may)
				return
			}
			defer release()
			if h.dropOne(ctx, rec.Job.ID, why, may) {
				mu.Lock()
				dropped++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return dropped
}

// dropOne ends a job whose turn the caller has, if it may be dropped by then and MoM does not have it.
func (h *Host) dropOne(ctx context.Context, id, why string, may func(*jobstate.Record) bool) bool {
	ctx = h.detach(ctx)
	rec := h.opt.Store.Get(id)
	if rec == nil || !may(rec) {
		return false
	}
	entry := h.log.WithField("job", id)
	if has, err := h.opt.PBSHas(rec.Job, rec.MoMHome); err != nil || has {
		if err != nil {
			entry.Debugf("whether pbs_mom has the job cannot be told: %v", err)
		}
		return false
	}
	err := h.finishLeft(ctx, rec, why)
	if err != nil {
		entry.Error(OneLine(err.Error()))
	}
	return err == nil
}

// beginsLate tells whether an event of a job without a record begins the job. Two do not:
//
//   - of a job with processes in its cgroup: one that OpenPBS's own hook has made on v1, at the same place, while the job ran. To begin would
//     take them for what an earlier run has left, and kill the job.
//   - a launch of a job that MoM does not have any more: its hook may have waited for this daemon until the job's end was through, and
//     nobody would end the job once more.
func (h *Host) beginsLate(req *hostapi.Request, from caller) bool {
	if !from.pbs || req.Event != hostapi.EventPrologue && req.Event != hostapi.EventLaunch {
		return false
	}
	entry := h.log.WithField("job", req.Job.ID)
	if h.opt.Populated != nil {
		runs, err := h.opt.Populated(req.Job.ID)
		if err != nil || runs {
			entry.Warnf("%s of a job that has not begun here and may run already: it does not begin now (%v)", req.Event, cmp.Or(err, errRuns))
			return false
		}
	}
	if req.Event != hostapi.EventLaunch || h.opt.PBSHas == nil {
		return true
	}
	has, err := h.opt.PBSHas(req.Job, from.home)
	return has || err != nil
}

var errRuns = errors.New("its cgroup has processes")

var errLateGone = errors.New("its record is gone")

// beginLate begins a job of pbs_mom at its prologue or launch: the job has no record, since its begin was never seen here, as when
// hookhost was installed while the job ran, or since it was taken for dropped. Otherwise it would have to go back to the queue, or
// run unconfined. The verdict is begin's.
func (h *Host) beginLate(ctx context.Context, req *hostapi.Request, from caller) (*Verdict, *jobstate.Record, error) {
	id := req.Job.ID
	job := *req.Job
	job.SessionID, job.ResourcesUsed = 0, nil
	h.log.WithField("job", id).Warnf("%s of a job that has not begun here: it begins now", req.Event)
	v, err := h.carryOut(ctx, &hostapi.Request{Event: hostapi.EventBegin, Node: req.Node, Job: &job, VnodeList: req.VnodeList}, from)
	if err != nil || v.Reject {
		return v, nil, err
	}
	maps.DeleteFunc(v.ResourcesUsed, func(name, _ string) bool { // MoM has counted while the job ran without hookhost
		_, counted := req.Job.ResourcesUsed[name]
		return counted
	})
	rec, err := h.record(ctx, id)
	if err == nil && rec == nil {
		err = errLateGone
	}
	if err != nil {
		return nil, nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	return v, rec, nil
}
