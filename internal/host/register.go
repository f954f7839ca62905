package host

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// leftBehind is the note about an earlier run in its report.
const leftBehind = "a run that was never ended was found when the job began again"

// register makes the record of a job that begins. The record exists before the first call of a hook
// and until after the last one. So everything that a hook has created belongs to a job that can be
// found. If a record already exists, standing decides in the same update. An earlier run is ended
// first.
func (h *Host) register(ctx context.Context, e *event) (*Verdict, error) {
	req, from := e.req, e.from
	req.PBS, req.MoMHome = from.pbs, from.home
	e.rec = &jobstate.Record{
		Job: req.Job, Phase: hostapi.PhasePrerun, Host: h.opt.Self,
		Runner: req.MoM, PBS: from.pbs, MoMHome: from.home, BegunBy: from.mom,
	}
	return nil, h.store(ctx, req, e.rec)
}

// store stores the record of a job that begins.
func (h *Host) store(ctx context.Context, req *hostapi.Request, rec *jobstate.Record) error {
	var ended, started bool
	var ending error
	for {
		var left *jobstate.Record
		var busy error
		err := h.opt.Store.Update(rec.Job.ID, func(there *jobstate.Record) (*jobstate.Record, error) {
			left, busy = nil, nil
			if there == nil {
				return rec, nil
			}
			over, err := h.standing(there, req)
			switch {
			case err != nil:
				busy = err
				return there, nil
			case !over:
				return rec, nil
			}
			// It must be ended, whatever happens to this host or this event.
			left, started = there, there.Phase != hostapi.PhasePrerun
			enterExiting(there, &hostapi.Request{Job: &hostapi.Job{}}, true, h.clock.Now())
			return there, nil
		})
		switch {
		case err != nil:
			return hostapi.Errorf(hostapi.KindNode, "%w", err)
		case busy != nil:
			return busy
		case left == nil:
			return nil
		case ended:
			return hostapi.Errorf(hostapi.KindNode, "end an earlier run: %w", cmp.Or(ending, errStays))
		}
		ended, ending = true, h.finishRun(ctx, left, leftBehind, !started && !left.Kept || left.PBS)
	}
}

var errStays = errors.New("its record is still there")

// standing decides about a record that begin finds under the job's id. over means that the earlier
// run must be ended first. The error has KindBusy and says that the job is running.
//
//	Reconcile would end it                     over
//	exiting                                    over
//	another runner's                           busy
//	another run_version                        over: PBS no longer knows that run
//	same run, prerun                           begin again; hooks are idempotent
//	same run, running or suspended             busy
func (h *Host) standing(rec *jobstate.Record, req *hostapi.Request) (over bool, err error) {
	left, _ := h.over(rec)
	sameRunner := (rec.Runner == nil) == (req.MoM == nil) && (rec.Runner == nil || *rec.Runner == *req.MoM)
	switch {
	case left:
		return true, nil
	case rec.Phase == hostapi.PhaseExiting:
		return true, nil
	case !sameRunner:
		return false, hostapi.Errorf(hostapi.KindBusy, "the job runs here already")
	case compareRuns(rec.Job, req.Job) != 0:
		return true, nil
	case rec.Phase == hostapi.PhasePrerun:
		return false, nil
	}
	return false, hostapi.Errorf(hostapi.KindBusy, "the job runs here already: %s since %s", rec.Phase,
		rec.Begun.Format(time.DateTime))
}

// compareRuns returns less than 0 if a is an earlier run of the job than b, and 0 if it is the same
// run. PBS counts each start in run_version, which nobody can alter. A PBS without run_version has
// only run_count, and lets nobody alter that (openpbs src/resmom/mom_hook_func.c,
// get_hook_results).
func compareRuns(a, b *hostapi.Job) int {
	if a.RunVersion > 0 && b.RunVersion > 0 {
		return cmp.Compare(a.RunVersion, b.RunVersion)
	}
	return cmp.Compare(a.RunCount, b.RunCount)
}

// isCounted reports whether the job says which of its runs this is.
func isCounted(job *hostapi.Job) bool { return job.RunVersion > 0 || job.RunCount > 0 }
