package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/reports"
	"github.com/hookhost/hookhost/internal/series"
)

// change applies fn to the records of these jobs, where there are any, and sets their timers
// accordingly. A record that cannot be encoded as JSON stays unchanged, which is logged.
func (h *Host) change(fn func(*jobstate.Record), ids ...string) {
	err := h.opt.Store.Change(ids, func(rec *jobstate.Record) {
		h.countingKills(rec, fn)
		h.arm(rec)
	})
	if err != nil {
		h.log.Error(hostapi.OneLine(err.Error()))
	}
}

// arm sets the timers of the job according to its record. The caller is updating the record, so the
// later of two changes counts.
func (h *Host) arm(rec *jobstate.Record) {
	h.armUnstarted(rec)
	set, now := map[string]alarm{}, h.clock.Now()
	for hook, t := range rec.Timers {
		if hook == endTimer || rec.Phase == hostapi.PhaseExiting {
			continue
		}
		if due, runs := rec.Due(t, now); runs {
			set[hook] = alarm{at: h.clock.Time(due)}
		}
	}
	h.timers.replace(rec.Job.ID, set)
}

// replace stores the record of a job.
func (h *Host) replace(rec *jobstate.Record) error {
	return h.opt.Store.Update(rec.Job.ID, func(*jobstate.Record) (*jobstate.Record, error) {
		h.arm(rec)
		return rec, nil
	})
}

// forget deletes the job's record and everything else that the host stores about it.
func (h *Host) forget(id string) error {
	h.timers.drop(id)
	h.unstarted.drop(id)
	h.runners.cancel(id)
	defer h.opt.Ended()
	return h.opt.Store.Update(id, func(*jobstate.Record) (*jobstate.Record, error) { return nil, nil })
}

// archive writes the job's report and then deletes its record. If the report can be written neither
// to disk nor to memory, the record stays, and Reconcile tries again.
func (h *Host) archive(rec *jobstate.Record, e hostapi.Event) error {
	if e == hostapi.EventEnd || !rec.Launched.IsZero() {
		rec.StampNotes(time.Now()) // the end's notes, which the store has not seen
		whole := *rec
		whole.Hosts = h.opt.Store.Hosts(rec) // advice needs the series
		r := report.FromRecord(&whole, rec.Ended.Wall, rec.Elapsed(rec.Ended))
		r.Advise(h.opt.SiteAdvice())
		r.Hosts = series.Without(r.Hosts)
		points := h.opt.Store.Series(rec)
		err := h.opt.Reports.Write(r, points)
		var waits *reports.WaitingError
		if err != nil && !errors.As(err, &waits) {
			return err
		}
		if waits != nil && waits.First {
			h.log.Errorf("reports of finished jobs cannot be written and are kept in memory: %v", err)
		}
		h.opt.Finished(r, points)
	}
	return h.forget(rec.Job.ID)
}

// drain moves waiting reports to disk. If the disk is still not writable, it logs nothing: the log
// already says so.
func (h *Host) drain() {
	moved, err := h.opt.Reports.Drain()
	if moved > 0 {
		h.log.Infof("wrote the reports of %d finished jobs, which had been kept in memory", moved)
	}
	if err != nil {
		h.log.Debugf("reports of finished jobs are still kept in memory: %v", err)
	}
}

// fallbackLimit bounds Options.Fallback.
const fallbackLimit = 20 * time.Second

// fallback removes the job's remains, because hooks may not have. why is for the log.
func (h *Host) fallback(ctx context.Context, id, why string) error {
	ctx, cancel := context.WithTimeout(ctx, fallbackLimit)
	defer cancel()
	h.log.WithField("job", id).Warn(why + ": the host removes what the job left")
	if err := h.opt.Fallback.RemoveJob(ctx, id); err != nil {
		return fmt.Errorf("remove what is left: %w", err)
	}
	return nil
}
