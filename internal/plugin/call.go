package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
)

// call carries out one event within the hook's alarm, which includes a start and a replay. The kind
// of an error is KindTimeout for the alarm and KindNode if the program cannot be started. It is
// KindInternal if the program crashed twice on the event. KindBusy wraps errRetired if another
// program has replaced this one. KindBusy is also the kind if the alarm rings while the previous
// program is still ending. Any other kind comes from the hook. An outcome may accompany an error.
// If there is no error, the outcome is nil if the hook does not handle the event.
//
// Only the alarm harms the program. If ctx ends for another reason, the call is abandoned with its
// cause, KindBusy.
func (p *Plugin) call(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	p.mu.Lock()
	if p.retired {
		p.mu.Unlock()
		return nil, Unanswered{Err: retiredError(p.hook.Name)}
	}
	p.calls.Add(1)
	h := p.hook
	p.mu.Unlock()
	defer p.calls.Done()

	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(h.Alarm)*time.Second, errAlarm)
	defer cancel()
	out, err := p.callOrReplay(ctx, req)
	if errors.Is(err, errAlarm) {
		lost, is := errors.AsType[Unanswered](err)
		err = hostapi.Errorf(hostapi.KindTimeout, "alarm after %ds", h.Alarm)
		if p.waits() { // neither the hook nor the node has failed
			err = hostapi.Errorf(hostapi.KindBusy, "alarm after %ds: the program before this one still runs", h.Alarm)
		}
		if is {
			lost.Err = err
			err = lost
		}
	}
	p.trace(h, req, out, err, time.Since(began))
	return out, err
}

var errAlarm = errors.New("alarm")

// errRetired is the error of calls after the hook was deleted or changed. A successor may have
// replaced it.
var errRetired = errors.New("it was taken out of service")

func retiredError(hook string) error {
	return hostapi.Errorf(hostapi.KindBusy, "hook %s: %w", hook, errRetired)
}

// Unanswered is the error of an event for which the hook was not available.
type Unanswered struct {
	Err error
	// Got reports whether the hook received the event, and so may have carried out a part of it.
	Got bool
}

func (u Unanswered) Error() string { return u.Err.Error() }

// Unwrap returns the cause.
func (u Unanswered) Unwrap() error { return u.Err }

// deathGrace is the time in which a program must end by itself after its connection broke.
const deathGrace = time.Second

// callOrReplay calls the hook, and again if it crashed. A start that fails is also tried again.
func (p *Plugin) callOrReplay(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	reached, restarted, replayed := false, false, false
	for {
		inst, err := p.instanceFor(ctx)
		if err != nil && !restarted && ctx.Err() == nil {
			restarted = true // the program may have been killed while it started
			continue
		}
		if err != nil {
			return nil, Unanswered{err, reached}
		}
		reached = true
		if !slices.Contains(inst.info.Events, req.Event) {
			return nil, nil
		}
		out, err := inst.client.Handle(ctx, req)
		switch {
		case late(ctx, err):
			if err := overdue(ctx); !errors.Is(err, errAlarm) {
				return nil, err
			}
			inst.killed.Store(true)
			inst.signal()
			p.drop(inst)
			return nil, errAlarm
		case !errors.Is(err, hostapi.ErrGone):
			return out, err
		}
		p.died(ctx, inst)
		if inst.killed.Load() {
			continue // killed by another job's alarm; this call's alarm has not rung
		}
		if replayed {
			return nil, hostapi.Errorf(hostapi.KindInternal, "crashed twice: %s", inst.cause())
		}
		replayed = true
	}
}

// overdue is the error of an event during which ctx has ended: by the alarm, or because the host
// gave up.
func overdue(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errAlarm) {
		return errAlarm
	}
	return Unanswered{hostapi.Errorf(hostapi.KindBusy, "given up: %w", context.Cause(ctx)), true}
}

// early is how far gRPC's own timer for a deadline may be ahead of the context's.
const early = 100 * time.Millisecond

// late reports whether the end of ctx caused err.
func late(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	deadline, ok := ctx.Deadline()
	if ok && errors.Is(err, context.DeadlineExceeded) && time.Until(deadline) < early {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// died waits until the program whose connection broke has ended, and stops using it.
func (p *Plugin) died(ctx context.Context, inst *instance) {
	grace := time.NewTimer(deathGrace)
	defer grace.Stop()
	select {
	case <-inst.exited:
	case <-grace.C:
		inst.signal() // it is still running but useless without its socket
		select {
		case <-inst.exited:
		case <-ctx.Done():
		}
	}
	p.drop(inst)
}

// trace reports one call to the host, and logs it if that is enabled.
func (p *Plugin) trace(h Hook, req *hostapi.Request, out *hostapi.Outcome, err error, took time.Duration) {
	if out != nil || err != nil { // else it does not handle the event
		p.host.Called(h.Name, out, err, took)
	}
	if !h.Debug && !p.log.Logger.IsLevelEnabled(logrus.DebugLevel) {
		return
	}
	entry := p.log.WithFields(logrus.Fields{"event": req.Event, "took": took.String()})
	if req.Job != nil {
		entry = entry.WithField("job", req.Job.ID)
	}
	if req.Partial {
		entry = entry.WithField("jobs", len(req.JobList))
	}
	if err != nil {
		entry = entry.WithField("error", hostapi.OneLine(err.Error()))
	}
	if !h.Debug {
		entry.Debug("hook called")
		return
	}
	entry.WithFields(logrus.Fields{"request": asJSON(req), "outcome": asJSON(out)}).Info("hook called")
}

// asJSON returns v as JSON for the log, or the text of the error if v cannot be encoded.
func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
