package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/reports"
	"github.com/hookhost/hookhost/internal/series"
)

// fallbackLimit bounds Options.Fallback.
const fallbackLimit = 20 * time.Second

// begin makes the job's record and calls the hooks to set up the job. The record exists from before
// the first call until after the last one. So anything that a hook has made belongs to a job that
// can be found. A begin that is refused earlier calls no hook and undoes nothing. This includes the
// begin of a MoM that died while its event waited, which would only add a run to report.
func (h *Host) begin(ctx context.Context, req *hostapi.Request, from caller) (*Verdict, error) {
	id := req.Job.ID
	req.PBS, req.MoMHome = from.pbs, from.home
	if err := plugin.ResolveOwner(&req.Job.Owner); err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "%w", err)
	}
	if h.momGone(req.MoM) {
		return nil, hostapi.Errorf(hostapi.KindBusy, momDied)
	}
	rec := &jobstate.Record{
		Job: req.Job, Phase: jobstate.PhasePrerun, Host: h.opt.Self,
		MoM: req.MoM, PBS: from.pbs, MoMHome: from.home, BegunBy: from.mom,
	}
	if err := h.register(ctx, req, rec); err != nil {
		return nil, err
	}
	c := h.newChain(req, nil)
	v := c.run(ctx)
	if !v.Reject {
		now := h.clock.Now()
		advance(rec, req, now)
		recordAnswers(rec, h.opt.Node, c, now)
		addLines(rec, v.JobStderr)
		noteSisters(rec, h.opt.Node, nil)
		err := h.replace(rec)
		if err == nil && !from.missed(req.Event, v) {
			h.watchMoM(id, req.MoM)
			return v, nil
		}
		if err != nil {
			// Without its record the job would belong to nobody, and whatever was made for it would
			// be orphaned.
			v.Reject, v.OnReject = true, hostapi.JobActionRerun
			v.Kind, v.Message = hostapi.KindNode, hostapi.OneLine(err.Error())
		}
	}
	if err := h.undo(ctx, c, rec); err != nil {
		v.Add(err.Error())
	}
	return v, nil
}

// beginWithRoom calls begin, and again if ending jobs that MoM has dropped made room.
func (h *Host) beginWithRoom(ctx context.Context, req *hostapi.Request, from caller) (*Verdict, error) {
	v, err := h.begin(ctx, req, from)
	if err != nil || !v.Reject || v.Hook == "" || v.Kind != hostapi.KindBusy || from.gone() != nil {
		return v, err
	}
	if h.dropper.dropForRoom(ctx, req.Job.ID, from) == 0 {
		return v, nil
	}
	return h.begin(ctx, req, from)
}

// undo reverses a begin that was not accepted. The record stays when something is left of the job.
// The next begin of the job, the next periodic or the next start of a host tries again.
func (h *Host) undo(ctx context.Context, c *chain, rec *jobstate.Record) error {
	err := c.undo(ctx)
	var left error
	if err != nil {
		left = h.fallback(ctx, rec.Job.ID)
	}
	err = errors.Join(err, left)
	if left == nil {
		return errors.Join(err, h.forget(rec.Job.ID))
	}
	enterExiting(rec, &hostapi.Request{Job: &hostapi.Job{}}, true, h.clock.Now())
	return errors.Join(err, h.replace(rec))
}

// forget deletes the job's record and everything else that the host stores about it.
func (h *Host) forget(id string) error {
	h.timers.drop(id)
	h.dropper.forget(id)
	h.moms.cancel(id)
	if h.opt.Ended != nil {
		defer h.opt.Ended()
	}
	return h.opt.Store.Update(id, func(*jobstate.Record) (*jobstate.Record, error) { return nil, nil })
}

// replace stores the record of a job.
func (h *Host) replace(rec *jobstate.Record) error {
	return h.opt.Store.Update(rec.Job.ID, func(*jobstate.Record) (*jobstate.Record, error) {
		h.arm(rec)
		return rec, nil
	})
}

// finish carries out epilogue, end and abort. The tear-down continues after failures and joins the
// errors.
//
// After its last event the job is settled, unless both its hooks and the host's own removal failed.
// Then the record stays, as that of an ending job. Reconcile ends it again, at each periodic and
// when a host starts.
func (h *Host) finish(ctx context.Context, req *hostapi.Request) (*Verdict, error) {
	id, last, began := req.Job.ID, req.Event != hostapi.EventEpilogue, h.clock.Now()
	told := *req
	rec, err := h.leaving(req, last)
	if errors.Is(err, errEarlierRun) {
		h.log.WithField("job", id).Warnf("%s of an earlier run comes late: %v", req.Event, err)
		return &Verdict{Outcome: &hostapi.Outcome{}}, nil
	}
	var errs []error
	h.timers.drop(id)
	if rec != nil {
		req.Job = jobOf(rec, req, began)
	} else if err := plugin.ResolveOwner(&req.Job.Owner); err != nil {
		h.log.WithField("job", id).Debug(err) // hooks tear down without it
	}
	c := h.newChain(req, rec)
	v := c.run(ctx)
	failed := c.failures()
	noted := func(r *jobstate.Record) {
		enterExiting(r, &told, last, began)
		recordAnswers(r, h.opt.Node, c, h.clock.Now())
	}
	var left error
	if last && failed != nil {
		if err := h.fallback(ctx, id); err != nil {
			left = err
			errs = append(errs, err)
		} else if h.opt.Fallback != nil && rec != nil {
			rec.AddNote("hookhost removed what the job left, because a hook failed to")
		}
	}
	switch {
	case rec == nil:
	case last:
		h.countingKills(rec, noted)
		errs = append(errs, h.conclude(rec, req.Event, left == nil))
	default:
		used := h.sisterUsage(rec)
		h.change(func(r *jobstate.Record) {
			noted(r)
			noteSisters(r, h.opt.Node, used)
			rec = r
		}, id)
		addTold(v.Outcome, rec, h.opt.Node)
	}
	if err := errors.Join(errs...); err != nil {
		if !v.Reject {
			v.Reject, v.Kind = true, hostapi.KindNode
		}
		v.Message = hostapi.OneLine(joinLines(v.Message, err.Error()))
	}
	return v, nil
}

// conclude settles a job after its last event, if nothing is left of it. Otherwise, or if that
// fails, the record is kept with everything known so far, and Reconcile settles it.
func (h *Host) conclude(rec *jobstate.Record, e hostapi.Event, clean bool) error {
	var unsettled error
	if clean {
		if unsettled = h.settle(rec, e); unsettled == nil {
			return nil
		}
	}
	err := h.opt.Store.Update(rec.Job.ID, func(*jobstate.Record) (*jobstate.Record, error) { return rec, nil })
	return errors.Join(unsettled, err)
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

// errEarlierRun is the error of an event that pbs_mom sent before it began the job again. The event
// was only read now, for example by a daemon that had been stopped. Events of different connections
// arrive in no particular order. Begin has already ended that run (standing).
var errEarlierRun = errors.New("the job has begun again since")

// leaving returns the job's record as it enters its last phase, and fails with errEarlierRun.
// pbs_mom sends end only once, so a host that dies during it must notice that afterwards. The phase
// is therefore stored before hooks are called. `hookhost run` sends it again. Everything else is
// stored with the hooks' answers.
func (h *Host) leaving(req *hostapi.Request, last bool) (*jobstate.Record, error) {
	rec := h.opt.Store.Get(req.Job.ID)
	if rec == nil {
		return nil, nil
	}
	if rec.PBS && isCounted(req.Job) && compareRuns(req.Job, rec.Job) < 0 {
		return nil, errEarlierRun
	}
	enterExiting(rec, req, last, h.clock.Now())
	if last && rec.MoM == nil {
		h.change(func(r *jobstate.Record) {
			enterExiting(r, req, last, h.clock.Now())
			rec = r // includes updates since it was read
		}, req.Job.ID)
	}
	return rec, nil
}

// settle writes the job's report and then deletes its record. If the report can be written neither
// to disk nor to memory, the record stays, and Reconcile tries again.
func (h *Host) settle(rec *jobstate.Record, e hostapi.Event) error {
	if e == hostapi.EventEnd || !rec.Launched.IsZero() {
		bare := *rec
		bare.Hosts = series.Without(rec.Hosts)
		r := report.FromRecord(&bare, rec.Ended.Wall, rec.Elapsed(rec.Ended))
		err := h.opt.Reports.Write(r, h.opt.Store.Series(rec))
		var waits *reports.WaitingError
		if err != nil && !errors.As(err, &waits) {
			return err
		}
		if waits != nil && waits.First {
			h.log.Errorf("reports of finished jobs wait until there is room: %v", err)
		}
	}
	return h.forget(rec.Job.ID)
}

// drain moves waiting reports to disk. If the disk still cannot be written, the log has that
// already.
func (h *Host) drain() {
	moved, err := h.opt.Reports.Drain()
	if moved > 0 {
		h.log.Infof("reports of %d finished jobs that had to wait are on disk", moved)
	}
	if err != nil {
		h.log.Debugf("reports of finished jobs wait on: %v", err)
	}
}

func (h *Host) fallback(ctx context.Context, id string) error {
	if h.opt.Fallback == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fallbackLimit)
	defer cancel()
	h.log.WithField("job", id).Warn("a hook failed to clean up: the host removes what the job left")
	if err := h.opt.Fallback.RemoveJob(ctx, id); err != nil {
		return fmt.Errorf("remove what is left: %w", err)
	}
	return nil
}
