package host

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// Bounds on what notices may add to a job's record.
const (
	maxTold  = 256      // lines, remarks, and resources
	maxTexts = 64 << 10 // bytes of each kind
)

// Notice records what a hook reported about a job. It does not wait for the job's turn, which an
// event may hold as long as its hooks' alarms allow. The record changes in a single update.
// However, the state in a notice may be older than the state that an event is about to bring. So a
// state counts only if the turn is free. Otherwise it is dropped and that is logged.
func (h pluginHost) Notice(hook, id string, u *hostapi.JobUpdate) error {
	end, ok := h.beginEvent()
	if !ok {
		return ErrClosed
	}
	defer end()
	release := h.jobs.try(id)
	if release != nil {
		defer release()
	}
	fresh, err := h.recordNotice(hook, id, u, release != nil)
	if err != nil {
		return err
	}
	for _, text := range fresh {
		h.log.WithFields(logrus.Fields{"hook": hook, "job": id}).Info(text)
	}
	return nil
}

var errEnding = hostapi.Errorf(hostapi.KindBusy, "the job is ending, and its last events tell what there is")

// recordNotice returns the lines that are new.
func (h *Host) recordNotice(hook, id string, u *hostapi.JobUpdate, turn bool) (fresh []string, err error) {
	if u.State != nil && !turn {
		entry := h.log.WithFields(logrus.Fields{"hook": hook, "job": id})
		entry.Warn("the state in a notice is dropped: an event of the job is under way")
	}
	var refused error
	note := func(rec *jobstate.Record) (*jobstate.Record, error) {
		switch {
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
		if u.State != nil && turn {
			put(&rec.HookState, hook, u.State)
		}
		callAt(rec, hook, u.CallAgain, u.CallAtElapsed, h.clock.Now())
		cpuPercent(rec, u, h.clock.Now())
		h.countingKills(rec, func(rec *jobstate.Record) { fold(rec, h.opt.Node, u) })
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
	return fresh, nil
}

// full returns an error if the notice would make the record unreasonably large.
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

// carryNotices copies what notices have added to the job's record into rec. Otherwise rec, which
// begin prepared separately, would overwrite it.
func carryNotices(rec, now *jobstate.Record, node string) {
	fold(rec, node, &hostapi.JobUpdate{Usage: now.Hosts[node], Diag: now.Diag[node], Notes: now.Notes})
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

// addTold adds what hooks reported between events to the outcome of epilogue: pbs_mom learns of it
// nowhere else. `hookhost run` writes no line twice.
func addTold(out *hostapi.Outcome, rec *jobstate.Record, node string) {
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
