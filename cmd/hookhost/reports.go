package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/ledger"
	"github.com/hookhost/hookhost/internal/report"
)

// Report returns the report of a live job, measured now, else the last one of a finished job.
func (b *backend) Report(ctx context.Context, id string, may func(*hostapi.Job) bool) (json.RawMessage, error) {
	record := b.store.Get(id)
	if record == nil {
		return b.finished(ctx, id, may)
	}
	if !may(record.Job) {
		return nil, fmt.Errorf("job %s: %w", id, api.ErrNotFound)
	}
	if b.host != nil {
		// A user asks as often as he likes; only root may do so for a job that is not known.
		refresh, level := b.host.RefreshForUser, logrus.DebugLevel
		if may(nil) {
			refresh, level = b.host.Refresh, logrus.WarnLevel
		}
		if err := refresh(ctx, id); err != nil { // the report will be older than it might
			b.log.WithField("job", id).Logf(level, "measure for report: %v", err)
		}
		if fresh := b.store.Get(id); fresh != nil {
			record = fresh
		}
	}
	clock, err := bootClock()
	if err != nil {
		return nil, err
	}
	now := clock.Now()
	r := report.FromRecord(record, time.Time{}, record.Elapsed(now))
	r.WalltimeLeft = timeLeft(record, now)
	return json.Marshal(r.Archive())
}

// Notices returns what hooks told about a live job between events: see host.Notices.
func (b *backend) Notices(ctx context.Context, id string, after int, may func(*hostapi.Job) bool) ([]string, int, error) {
	record := b.store.Get(id)
	if record == nil || !may(record.Job) {
		return nil, 0, fmt.Errorf("job %s: %w", id, api.ErrNotFound)
	}
	lines, all, err := b.host.Notices(ctx, id, after)
	if errors.Is(err, host.ErrOver) {
		err = io.EOF
	}
	return lines, all, err
}

// finished returns the last report of a job that has ended.
func (b *backend) finished(ctx context.Context, id string, may func(*hostapi.Job) bool) (json.RawMessage, error) {
	text, found, err := b.ledger.Last(ctx, id)
	if err != nil {
		return nil, cmp.Or(damageIn(err), err)
	}
	if !found {
		return nil, fmt.Errorf("job %s: %w", id, api.ErrNotFound)
	}
	job, err := jobIn(text)
	if err != nil {
		return nil, err
	}
	if !may(job) {
		return nil, fmt.Errorf("job %s: %w", id, api.ErrNotFound)
	}
	return text, nil
}

// jobIn returns the job that a report is about; nil where it does not say.
func jobIn(text json.RawMessage) (*hostapi.Job, error) {
	r, err := report.FromArchive(text)
	if err != nil {
		return nil, err
	}
	return r.PBSJob, nil
}

// Finished calls yield with the report of each finished job whose owner may admits, oldest first.
// The log has what is damaged once, whoever asks and however often.
func (b *backend) Finished(ctx context.Context, may func(uid int) bool, yield func(json.RawMessage) bool) error {
	err := b.ledger.All(ctx, may, func(e ledger.Entry) bool { return ctx.Err() == nil && yield(e.Report) })
	if damage := damageIn(err); damage != nil {
		text := err.Error()
		if told := b.damaged.Swap(&text); told == nil || *told != text {
			b.log.Error(text)
		}
		return damage
	}
	return err
}

// damageIn returns what the API knows of damaged lines in the ledger, nil where err is none of
// those.
func damageIn(err error) error {
	var damage *ledger.DamageError
	if !errors.As(err, &damage) {
		return nil
	}
	return &api.Error{Status: http.StatusInternalServerError, Kind: api.KindDamaged, Message: err.Error()}
}
