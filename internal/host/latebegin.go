package host

import (
	"cmp"
	"context"
	"errors"
	"maps"

	"github.com/hookhost/hookhost/hostapi"
)

// startsThisRun refuses a prologue or launch of an earlier run of the job than its record's. The
// server had MoM discard that run during its start, and MoM's child went on with it (qrerun -W
// force). A record of an earlier run is not used, nor is one whose begin a dead daemon did not
// complete: MoM started the job without hookhost (unconfined), and beginLate begins it.
func (h *Host) startsThisRun(_ context.Context, e *event) (*Verdict, error) {
	if e.rec == nil || !e.rec.PBS || !e.from.pbs || !e.req.Event.Starts() {
		return nil, nil
	}
	runs := 0
	if isCounted(e.req.Job) && isCounted(e.rec.Job) {
		runs = compareRuns(e.req.Job, e.rec.Job)
	}
	over, _ := h.over(e.rec)
	switch {
	case runs < 0:
		return refuseStart(e.req, hostapi.KindJob, runEnded), nil
	case runs > 0, over && e.rec.Phase != hostapi.PhaseExiting:
		e.rec = nil
	}
	return nil, nil
}

// beginLate begins a job of pbs_mom at its prologue or launch, if this run of it has no record that
// can be used. Its begin was never seen here, because hookhost was installed later, or the job was
// wrongly dropped. pbs_mom does not send it again (openpbs src/resmom/start_exec.c, start_exec).
// Without this, the job would have to go back to the queue or run unconfined. If the begin is not
// accepted, its verdict is the event's. Otherwise the event goes on with the record.
func (h *Host) beginLate(ctx context.Context, e *event) (*Verdict, error) {
	if e.rec != nil || !h.beginsLate(e) {
		return nil, nil
	}
	if h.hasEnded(ctx, e.req) {
		return refuseStart(e.req, hostapi.KindJob, runEnded), nil
	}
	id := e.req.Job.ID
	job := *e.req.Job
	job.SessionID, job.ResourcesUsed = 0, nil
	h.log.WithField("job", id).Warnf("%s of a job that has not begun here: it begins now", e.req.Event)
	begin := &hostapi.Request{Event: hostapi.EventBegin, Node: e.req.Node, Job: &job, VnodeList: e.req.VnodeList}
	v, err := h.carryOut(ctx, begin, e.from)
	if err != nil || v.Reject {
		return v, err
	}
	maps.DeleteFunc(v.ResourcesUsed, func(name, _ string) bool { // MoM counted while the job ran without hookhost
		_, counted := e.req.Job.ResourcesUsed[name]
		return counted
	})
	e.late, e.rec = v, h.opt.Store.Get(id)
	if e.rec == nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", errLateGone)
	}
	return nil, nil
}

// beginsLate reports whether an event of a job without a record begins the job, provided its run
// has not ended here. There are two exceptions:
//
//   - a job with processes in its cgroup. On v1, OpenPBS's own hook makes that cgroup at the same
//     place, if the job started before hookhost came. A begin would take these processes for
//     leftovers of an earlier run and kill the job. If there is a record, an earlier run did begin
//     here, and the processes are its leftovers: the begin ends that run.
//   - a job that MoM no longer has, because nobody would ever end it. The hook may have waited for
//     this daemon until the job had ended. Or the server had MoM discard the job during its start:
//     MoM's child then continues with prologue and launch (qrerun -W force).
func (h *Host) beginsLate(e *event) bool {
	req := e.req
	if !e.from.pbs || !req.Event.Starts() {
		return false
	}
	var runs bool
	var err error
	if h.opt.Store.Get(req.Job.ID) == nil {
		runs, err = h.opt.Populated(req.Job.ID)
	}
	if err == nil && runs && !h.confines() { // isKnown accepts it
		return false
	}
	if err != nil || runs {
		h.log.WithField("job", req.Job.ID).Warnf("%s of a job that has not begun here and may run already: "+
			"it does not begin now (%v)", req.Event, cmp.Or(err, errRuns))
		return false
	}
	has, err := h.opt.PBSHas(req.Job, e.from.home)
	return has || err != nil
}

// hasEnded reports whether there is a report of the event's run of the job, or of a later run. MoM
// deletes its files of a job a moment after the job's end. In that moment, the child that starts
// the job may go on (qdel -W force). A run without a count is never taken for one that has ended.
func (h *Host) hasEnded(ctx context.Context, req *hostapi.Request) bool {
	if !isCounted(req.Job) {
		return false
	}
	last, err := h.opt.Reports.Last(ctx, req.Job.ID, func(int) bool { return true })
	if err != nil {
		h.log.WithField("job", req.Job.ID).Warnf("%s of a job that may have ended here: %v", req.Event, err)
	}
	return last != nil && last.PBSJob != nil && compareRuns(req.Job, last.PBSJob) <= 0
}

const runEnded = "this run of the job has ended here"

var errRuns = errors.New("its cgroup has processes")

var errLateGone = errors.New("its record is gone")
