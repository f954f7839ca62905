package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/reports"
)

// Report returns the report of a live job, measured now, or the last report of a finished job.
func (j *jobs) Report(ctx context.Context, id string, may func(*hostapi.Job) bool) (json.RawMessage, error) {
	record := j.store.Get(id)
	if record == nil || !may(record.Job) { // another user may have had the id before
		return j.finished(ctx, id, may)
	}
	// Users may ask as often as they like. Only root may ask for a job that is unknown.
	refresh, level := j.host.RefreshForUser, logrus.DebugLevel
	if may(nil) {
		refresh, level = j.host.Refresh, logrus.WarnLevel
	}
	if err := refresh(ctx, id); err != nil { // the report will be older than it could be
		j.log.WithField("job", id).Logf(level, "measure for report: %v", err)
	}
	if fresh := j.store.Get(id); fresh != nil {
		record = fresh
	}
	record.Hosts = j.store.Hosts(record)
	now := j.clock.Now()
	r := report.FromRecord(record, time.Time{}, record.Elapsed(now))
	r.WalltimeLeft = timeLeft(record, now)
	r.Advise(j.siteAdvice())
	return json.Marshal(r)
}

// finished returns the last report of a job that has ended and that may admits, with the series of
// its hosts.
func (j *jobs) finished(ctx context.Context, id string, may func(*hostapi.Job) bool) (json.RawMessage, error) {
	r, err := j.reports.Last(ctx, id, func(uid int) bool {
		return may(&hostapi.Job{ID: id, Owner: hostapi.Owner{UID: uid}})
	})
	if err != nil {
		return nil, cmp.Or(damageIn(err), err)
	}
	if r == nil {
		return nil, fmt.Errorf("job %s: %w", id, api.ErrNotFound)
	}
	return json.Marshal(r)
}

// Find calls yield with the report of each job that the filter chooses and whose owner may admits.
// Live jobs are reported with their current usage, see atPresent, and without a series. A job that
// ends meanwhile is listed once. Each damaged report is logged only once.
func (j *jobs) Find(ctx context.Context, f report.Filter, may func(uid int) bool,
	yield func(json.RawMessage) bool) error {
	var live []*report.Report
	if f.Live() {
		live = j.live(f, may)
	}
	if f.Limit > 0 { // newest first
		if more := yieldEach(live, yield); !more || len(live) == f.Limit {
			return nil
		}
		f.Limit -= len(live)
	}
	var err error
	stopped := false
	if f.Finished() {
		q := reports.Query{Filter: f, May: may, Pause: (&pauses{}).pause, Skip: func(n reports.Name) bool {
			return slices.ContainsFunc(live, n.IsOf)
		}}
		err = j.reports.All(ctx, q, func(text json.RawMessage) bool {
			stopped = !yield(text)
			return !stopped
		})
		j.logDamage(err)
	}
	if f.Limit == 0 && !stopped {
		slices.Reverse(live)
		yieldEach(live, yield)
	}
	return cmp.Or(damageIn(err), err)
}

// yieldEach calls yield with the JSON of each report until it returns false. yieldEach then also
// returns false.
func yieldEach(reports []*report.Report, yield func(json.RawMessage) bool) bool {
	for _, r := range reports {
		if text, err := json.Marshal(r); err == nil && !yield(text) {
			return false
		}
	}
	return true
}

// logDamage logs damaged reports that were not logged before.
func (j *jobs) logDamage(err error) {
	var damage *reports.DamageError
	if !errors.As(err, &damage) {
		return
	}
	fresh := slices.DeleteFunc(slices.Clone(damage.Files), func(name string) bool {
		_, logged := j.damaged.LoadOrStore(name, true)
		return logged
	})
	if len(fresh) > 0 {
		j.log.Error(&reports.DamageError{Dir: damage.Dir, Files: fresh})
	}
}

// pauses makes a search sleep for as long as it has worked. A thread that works without a pause has
// to wait for its cpu on a busy node, and events would wait with it.
type pauses struct{ last time.Time }

func (p *pauses) pause() {
	const atLeast, atMost = time.Millisecond, 10 * time.Millisecond
	if worked := time.Since(p.last); worked >= atLeast {
		time.Sleep(min(worked, atMost))
		p.last = time.Now()
	}
}

// live returns the reports of live jobs that the filter chooses, latest first. It measures no more
// jobs than the filter's limit.
func (j *jobs) live(f report.Filter, may func(uid int) bool) []*report.Report {
	var records []*jobstate.Record
	for _, record := range j.store.List() {
		if may(record.Job.Owner.UID) && f.Matches(report.FromRecord(record, time.Time{}, 0)) {
			records = append(records, record)
		}
	}
	began := func(r *jobstate.Record) time.Time { return cmp.Or(r.Launched.Wall, r.Begun) }
	slices.SortStableFunc(records, func(a, b *jobstate.Record) int { return began(b).Compare(began(a)) })
	if f.Limit > 0 {
		records = records[:min(f.Limit, len(records))]
	}
	reports, advice := make([]*report.Report, len(records)), j.siteAdvice()
	for i, record := range records {
		j.atPresent(record)
		now := j.clock.Now()
		reports[i] = report.FromRecord(record, time.Time{}, record.Elapsed(now))
		reports[i].WalltimeLeft = timeLeft(record, now)
		reports[i].Advise(advice)
	}
	return reports
}

// atPresent updates the record of a job with its current usage. The last measurement of its hooks
// is older: its cpu time and the current walltime would give a wrong efficiency. A job on several
// hosts gets no figures, because the other hosts are not read. Grants and kills stay.
func (j *jobs) atPresent(record *jobstate.Record) {
	record.ResourcesUsed = nil
	var peak *int64
	if here := record.Hosts[j.node]; here != nil {
		peak = here.MemBytes
	}
	for name, h := range record.Hosts {
		if h != nil {
			record.Hosts[name] = grantedOf(h)
		}
	}
	hosts, err := pbs.Hosts(record.Job.ExecVnode, record.Job.ExecHost2)
	if err != nil || len(hosts) > 1 || len(record.Hosts) > 1 {
		return
	}
	uses, err := j.present(record.Job.ID)
	if err != nil { // the job is ending, or nothing has made a cgroup for it
		return
	}
	here := cmp.Or(record.Hosts[j.node], &hostapi.HostUsage{})
	here.CPUTSeconds, here.MemBytes = uses.CPUSeconds, uses.MemBytes
	if peak != nil && here.MemBytes != nil {
		here.MemBytes = new(max(*peak, *here.MemBytes))
	}
	here.OOMKills = cmp.Or(uses.OOMKills, here.OOMKills)
	record.Hosts = map[string]*hostapi.HostUsage{j.node: here}
}

// grantedOf returns the usage of a host without the measurements of its hooks.
func grantedOf(h *hostapi.HostUsage) *hostapi.HostUsage {
	granted := &hostapi.HostUsage{
		CPUs: h.CPUs, Mems: h.Mems, NCPUs: h.NCPUs, MemLimitBytes: h.MemLimitBytes, OOMKills: h.OOMKills, Kill: h.Kill,
	}
	for _, d := range h.Devices {
		granted.Devices = append(granted.Devices,
			hostapi.DeviceUsage{ID: d.ID, Resource: d.Resource, Model: d.Model, PCI: d.PCI, Returned: d.Returned})
	}
	return granted
}

// damageIn returns the API's error for damaged reports, or nil for other errors.
func damageIn(err error) error {
	var damage *reports.DamageError
	if !errors.As(err, &damage) {
		return nil
	}
	return &api.Error{Status: http.StatusInternalServerError, Kind: api.KindDamaged, Message: err.Error()}
}
