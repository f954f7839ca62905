package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/ledger"
	"github.com/hookhost/hookhost/internal/report"
)

// Report returns the report of a live job, measured now, else the last one of a finished job.
func (j *jobs) Report(ctx context.Context, id string, may func(*hostapi.Job) bool) (json.RawMessage, error) {
	record := j.store.Get(id)
	if record == nil {
		return j.finished(ctx, id, may)
	}
	if !may(record.Job) {
		return nil, fmt.Errorf("job %s: %w", id, api.ErrNotFound)
	}
	// A user asks as often as the user likes. Only root may do so for a job that is not known.
	refresh, level := j.host.RefreshForUser, logrus.DebugLevel
	if may(nil) {
		refresh, level = j.host.Refresh, logrus.WarnLevel
	}
	if err := refresh(ctx, id); err != nil { // the report will be older than it might
		j.log.WithField("job", id).Logf(level, "measure for report: %v", err)
	}
	if fresh := j.store.Get(id); fresh != nil {
		record = fresh
	}
	record.Hosts = j.store.Hosts(record)
	now := j.clock.Now()
	r := report.FromRecord(record, time.Time{}, record.Elapsed(now))
	r.WalltimeLeft = timeLeft(record, now)
	return json.Marshal(r.Archive())
}

// Notices returns the lines of hooks about a live job between events: see host.Notices.
func (j *jobs) Notices(ctx context.Context, id string, after int, may func(*hostapi.Job) bool) ([]string, int, error) {
	record := j.store.Get(id)
	if record == nil || !may(record.Job) {
		return nil, 0, fmt.Errorf("job %s: %w", id, api.ErrNotFound)
	}
	lines, all, err := j.host.Notices(ctx, id, after)
	if errors.Is(err, host.ErrOver) {
		err = io.EOF
	}
	return lines, all, err
}

// finished returns the last report of a job that has ended, with the series of its hosts.
func (j *jobs) finished(ctx context.Context, id string, may func(*hostapi.Job) bool) (json.RawMessage, error) {
	text, found, err := j.ledger.Last(ctx, id)
	if err != nil {
		return nil, cmp.Or(damageIn(err), err)
	}
	if !found {
		return nil, fmt.Errorf("job %s: %w", id, api.ErrNotFound)
	}
	r, err := report.FromArchive(text)
	if err != nil {
		return nil, err
	}
	if !may(r.PBSJob) {
		return nil, fmt.Errorf("job %s: %w", id, api.ErrNotFound)
	}
	return j.series.Join(text), nil
}

// Find calls yield with the report of each job that the filter chooses and whose owner may admits.
// Live jobs are as they were last measured, and none has its series. The log has damage once,
// whoever asks and however often: a question for the newest may not come to all of it.
func (j *jobs) Find(ctx context.Context, f report.Filter, may func(uid int) bool,
	yield func(json.RawMessage) bool) error {
	var live []*report.Report
	if f.Live() {
		live = j.live(f, may)
	}
	err := FindReports(ctx, j.ledger, live, f, may, (&pauses{}).pause, yield)
	var damage *ledger.DamageError
	if !errors.As(err, &damage) {
		return err
	}
	if found, told := int64(damage.Count), j.damaged.Load(); found > told || found < told && f.Limit == 0 {
		j.damaged.Store(found)
		j.log.Error(err)
	}
	return damageIn(err)
}

// live returns the reports of live jobs that the filter chooses, those that began last first.
func (j *jobs) live(f report.Filter, may func(uid int) bool) []*report.Report {
	var reports []*report.Report
	now := j.clock.Now()
	for _, record := range j.store.List() {
		if !may(record.Job.Owner.UID) {
			continue
		}
		r := report.FromRecord(record, time.Time{}, record.Elapsed(now))
		if r.WalltimeLeft = timeLeft(record, now); f.Matches(r) {
			reports = append(reports, r)
		}
	}
	slices.SortStableFunc(reports, func(a, b *report.Report) int { return b.Began().Compare(a.Began()) })
	return reports
}

// damageIn returns the API's error for damaged lines in the ledger, nil if err is none of those.
func damageIn(err error) error {
	var damage *ledger.DamageError
	if !errors.As(err, &damage) {
		return nil
	}
	return &api.Error{Status: http.StatusInternalServerError, Kind: api.KindDamaged, Message: err.Error()}
}
