package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// ErrOver is what Notices fails with when the job does not live here, any more or at all.
var ErrOver = errors.New("the job is over")

// Bounds on what a hook that floods the host can do. A burst is what many jobs that run out of memory at once make.
const (
	noticeBurst = 256
	noticeEvery = 50 * time.Millisecond // beyond the burst
)

// Bounds on what notices may put into a job's record.
const (
	maxTold  = 256      // lines, remarks, and resources
	maxTexts = 64 << 10 // bytes of each kind
)

// Bounds on what the log says of notices that are dropped; the rest is told as a number.
const (
	dropBurst = 20
	dropEvery = time.Minute
)

// listen takes what the instance tells between events, one after the other, until the program ends. The pace is
// ours: what comes faster waits in the hook.
func (p *plugin) listen(inst *instance) {
	pace, drops := newBucket(noticeBurst, noticeEvery), newBucket(dropBurst, dropEvery)
	unsaid := 0
	err := inst.client.Notices(p.ctx, func(job string, update *hostapi.JobUpdate, err error) {
		if !pace.take(p.ctx) {
			return
		}
		if err == nil {
			err = p.heard(p, job, update)
		}
		if err == nil {
			return
		}
		if !drops.try() {
			unsaid++
			return
		}
		entry := p.log.WithField("job", job)
		if unsaid > 0 {
			entry = entry.WithField("unsaid", unsaid)
			unsaid = 0
		}
		if errors.Is(err, errEnding) {
			entry.Infof("notice dropped: %v", err)
		} else {
			entry.Errorf("notice dropped: %v", err)
		}
	})
	if unsaid > 0 {
		p.log.Errorf("%d more notices were dropped", unsaid)
	}
	if err != nil && p.ctx.Err() == nil {
		p.log.Errorf("hook %s is not heard between events any more: %v", inst.hook.Name, err)
	}
}

// heard takes over what a hook told about a job. It does not wait for the job's turn: an event may have it for as long as
// its hooks' alarms, and one transaction changes the record as a whole. Only the hook's state could be older than
// what an event is about to bring; so that is taken with the turn alone, and else dropped.
func (h *Host) heard(p *plugin, id string, u *hostapi.JobUpdate) error {
	if !h.enter(&h.begun) {
		return ErrClosed
	}
	defer h.begun.Done()
	if u.SignalSisters != "" {
		h.sisters.Signal(h.ctx, id, u.SignalSisters)
	}
	release := h.jobs.try(id)
	if release != nil {
		defer release()
	}
	fresh, err := h.takeNotice(p, id, u, release != nil)
	if err != nil {
		return err
	}
	for _, text := range fresh {
		p.log.WithField("job", id).Info(text)
	}
	return nil
}

var errEnding = errors.New("the job is ending, and its last events tell what there is")

// takeNotice returns the lines that were not told before.
func (h *Host) takeNotice(p *plugin, id string, u *hostapi.JobUpdate, turn bool) (fresh []string, err error) {
	if u.State != nil && !turn {
		p.log.WithField("job", id).Warn("the state in a notice is dropped: an event of the job is under way")
	}
	var refused error
	note := func(rec *jobstate.Record) (*jobstate.Record, error) {
		switch refused = nil; {
		case rec == nil:
			refused = errors.New("no such job on this host")
		case rec.Phase == jobstate.PhaseExiting:
			refused = errEnding
		default:
			refused = full(rec, h.opt.Node, u)
		}
		if refused != nil {
			return nil, refused // nothing is written
		}
		hook := p.spec().Name
		if u.State != nil && turn {
			put(&rec.HookState, hook, u.State)
		}
		callAt(rec, hook, u.CallAgain, u.CallAtElapsed, u.AskSisters, h.clock.Now())
		cpuPercent(rec, u, h.clock.Now())
		found(rec, h.opt.Node, u)
		told := len(rec.Told)
		rec.AddLines(u.JobStderr)
		fresh = rec.Told[told:]
		h.arm(rec)
		return rec, nil
	}
	err = h.opt.Store.Update(id, note)
	if err != nil {
		return nil, cmp.Or(refused, err)
	}
	h.rouse(id)
	return fresh, nil
}

// full says what in the record would grow beyond all reason if the notice were taken.
func full(rec *jobstate.Record, node string, u *hostapi.JobUpdate) error {
	for _, part := range []struct {
		key      string
		had, new []string
	}{
		{"job_stderr", rec.Told, slices.Clone(u.JobStderr)},
		{"notes", rec.Notes, slices.Concat(u.Notes, u.JobStderr)},
		{"diag", []string{rec.Diag[node]}, []string{u.Diag}},
	} {
		fresh := slices.DeleteFunc(part.new, func(text string) bool { return slices.Contains(part.had, text) })
		bytes := 0
		for _, text := range slices.Concat(part.had, fresh) {
			bytes += len(text)
		}
		if len(fresh) > 0 && (len(part.had)+len(fresh) > maxTold || bytes > maxTexts) {
			return fmt.Errorf("%s: too much was told of the job already", part.key)
		}
	}
	if len(u.ResourcesUsed) == 0 {
		return nil
	}
	used, bytes := hostapi.Resources{}, 0
	maps.Copy(used, rec.ResourcesUsed)
	maps.Copy(used, u.ResourcesUsed)
	for name, value := range used {
		bytes += len(name) + len(value)
	}
	if len(used) > maxTold || bytes > maxTexts {
		return fmt.Errorf("resources_used: %d resources of %d bytes are too many", len(used), bytes)
	}
	return nil
}

// keepTold saves what notices have put into the job's record from being replaced by rec, which begin made beside it.
func keepTold(rec, now *jobstate.Record, node string) {
	found(rec, node, &hostapi.JobUpdate{Usage: now.Hosts[node], Diag: now.Diag[node], Notes: now.Notes})
	rec.AddLines(now.Told)
	for hook, t := range now.Timers {
		if _, asked := rec.Timers[hook]; !asked && rec.Phase != jobstate.PhaseExiting {
			put(&rec.Timers, hook, t)
		}
	}
	rec.WalltimeLimit = cmp.Or(rec.WalltimeLimit, now.WalltimeLimit)
	for name, value := range now.ResourcesUsed {
		if _, told := rec.ResourcesUsed[name]; !told {
			put(&rec.ResourcesUsed, name, value)
		}
	}
}

// retell adds what was told between events to the outcome of epilogue: pbs_mom hears of it nowhere else. A MoM of ours
// writes no line twice.
func retell(out *hostapi.Outcome, rec *jobstate.Record, node string) {
	lines := slices.Clone(rec.Told)
	for _, text := range out.JobStderr {
		if !slices.Contains(rec.Told, text) {
			lines = append(lines, text)
		}
	}
	out.JobStderr = lines
	if told := rec.Diag[node]; strings.Contains(told, out.Diag) {
		out.Diag = told
	}
}

// Notices returns the lines for the job's standard error that hooks told between events, but for the first after of them,
// and how many there are in all. It waits until there are some. It fails with ErrOver when the job is over, with
// ErrClosed when the host is closing, and when ctx ends. A record that was lost begins to count anew; then lines come again.
func (h *Host) Notices(ctx context.Context, id string, after int) (lines []string, all int, err error) {
	ear, forget := h.lend(id)
	defer forget()
	for {
		rec := h.opt.Store.Get(id)
		switch {
		case rec == nil:
			return nil, 0, ErrOver
		case after < 0 || after > len(rec.Told):
			after = 0
		}
		if len(rec.Told) > after {
			return rec.Told[after:], len(rec.Told), nil
		}
		select {
		case <-ear:
		case <-ctx.Done():
			return nil, 0, context.Cause(ctx)
		case <-h.ctx.Done():
			return nil, 0, ErrClosed
		}
	}
}

// lend returns a channel that gets a token when there may be news of the job.
func (h *Host) lend(id string) (ear chan struct{}, forget func()) {
	ear = make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ears[id] == nil {
		put(&h.ears, id, map[chan struct{}]bool{})
	}
	h.ears[id][ear] = true
	return ear, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if delete(h.ears[id], ear); len(h.ears[id]) == 0 {
			delete(h.ears, id)
		}
	}
}

// rouse wakes those who wait for news of the job.
func (h *Host) rouse(id string) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for ear := range h.ears[id] {
		select {
		case ear <- struct{}{}:
		default:
		}
	}
}
