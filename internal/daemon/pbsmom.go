package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/nodestate"
	"github.com/hookhost/hookhost/internal/openpbs"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/proc"
)

// pbsMoM answers the hook of pbs_mom.
type pbsMoM struct {
	conf   *configuration
	host   *host.Host
	store  *jobstate.Store
	procfs *kernfs.FS
	doctor *doctor
	log    *logrus.Entry

	noting sync.Mutex                    // guards notes and blank
	notes  map[string]*nodestate.Offline // why vnodes are offline; the state directory has a copy
	blank  bool                          // the copy has no notes
}

// Event carries out an event of pbs_mom, which MoM's hook passes on. The answer comes before MoM
// kills the hook. An event that is not over by then continues without an answer, or is undone: see
// openpbs.Event.Becomes.
func (m *pbsMoM) Event(ctx context.Context, call api.MoMCall) (api.MoMAnswer, error) {
	e, err := openpbs.Decode(call.Input)
	if err != nil {
		return api.MoMAnswer{}, hostapi.Errorf(hostapi.KindJob, "%w", err)
	}
	if cause := context.Cause(ctx); cause != nil && !e.Owed() {
		const text = "%s: pbs_mom has given it up before it was read: it is not carried out"
		m.log.WithField("event", e.Request.Event).Warnf(text, e.Name())
		return api.MoMAnswer{}, hostapi.Errorf(hostapi.KindTimeout, "%s: %w", e.Name(), cause)
	}
	if m.mustAsk(e, call) {
		return answerTo(e, call, openpbs.Ask()), nil
	}
	limit := pbs.AnswerWithin(e.Alarm)
	var at host.At
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("its alarm is %v", e.Alarm))
	defer cancel()
	done := make(chan *openpbs.Changes, 1)
	go func() { done <- m.carryOut(host.WithAt(ctx, &at), e, call) }()
	select {
	case changes := <-done:
		return answerTo(e, call, changes), nil
	case <-ctx.Done():
	}
	select { // both at once: the host has not yet undone what it accepted
	case changes := <-done:
		return answerTo(e, call, changes), nil
	default:
	}
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	why := "nobody waits for its answer any more"
	if late {
		why = fmt.Sprintf("no answer in time (%g s of %g)", limit.Seconds(), pbs.Alarm(e.Alarm).Seconds())
	}
	if hook := at.Hook(); hook != "" {
		why += fmt.Sprintf(", hook '%s' is at it", hook)
	}
	text := fmt.Sprintf("hookhost: %s: %s: %s", e.Name(), why, e.Becomes())
	m.log.WithFields(logrus.Fields{"event": e.Request.Event, "hook": e.Hook}).Warn(text)
	if !late {
		return api.MoMAnswer{}, hostapi.Errorf(hostapi.KindTimeout, "%s: %w", e.Name(), context.Cause(ctx))
	}
	changes := e.Late(text)
	e.Incomplete(changes, why, m.customResources(call.Caller))
	return answerTo(e, call, changes), nil
}

// carryOut carries out an event and returns the changes that the hook has to make.
func (m *pbsMoM) carryOut(ctx context.Context, e *openpbs.Event, call api.MoMCall) *openpbs.Changes {
	req, waits := e.Request, ctx
	if !e.Refusable() { // MoM sends it once, and does not ask for the result
		ctx = context.WithoutCancel(ctx)
	}
	v, err := m.handle(ctx, e, call)
	if err != nil { // the host's own errors are self-explanatory
		text := fmt.Sprintf("hookhost: %s: %s", e.Name(), strings.TrimPrefix(err.Error(), e.Name()+": "))
		changes := e.Failed("error", text, e.Refusable(), text)
		e.Incomplete(changes, text, m.customResources(call.Caller))
		return changes
	}
	if state, known := m.doctor.state(m.conf.file.Load().Host.Enabled); known {
		e.AddState(v.Outcome, state)
	}
	if req.Event == hostapi.EventPeriodic {
		m.doctor.retry()
	}
	changes := m.changes(e, v, call, waits.Err() != nil)
	if req.Event == hostapi.EventBegin && v.Reject && v.Kind == hostapi.KindBusy {
		e.PutOff(changes, time.Now())
	}
	if req.Event == hostapi.EventBegin && !v.Reject && !m.conf.file.Load().Host.Enabled {
		changes.LogJob(req.Job.ID, "hookhost: not confined: this host is left alone, by enabled of [host]")
	}
	if req.Event == hostapi.EventEpilogue {
		if err := m.appendStderr(req.Job, append(v.JobStderr, m.summary(req.Job)...)); err != nil {
			m.log.WithField("job", req.Job.ID).Warnf("lines for the job's standard error: %v", err)
			text := fmt.Sprintf("hookhost: lines for the standard error of job %s: %v", req.Job.ID, err)
			changes.Log("warning", text)
		}
	}
	return changes
}

// changes returns what the hook has to do after the event; late means that nobody waits for it any
// more. What takes vnodes offline is noted, so that a restarted server, MoM or daemon does not lose
// it.
func (m *pbsMoM) changes(e *openpbs.Event, v *host.Verdict, call api.MoMCall, late bool) *openpbs.Changes {
	vnodes, custom := m.conf.file.Load().Vnodes, m.customResources(call.Caller)
	o := openpbs.Offlining{States: v.States, Hooks: map[string]bool{}, Late: late, Now: time.Now(),
		Return: vnodes.OnlineOfflinedNodes, MinDelay: time.Duration(vnodes.OnlineMinDelay)}
	for _, f := range v.Faults {
		o.Faults = append(o.Faults, openpbs.Fault{Hook: f.Hook, Err: f.Err, Unavailable: f.Unavailable()})
	}
	for _, s := range m.host.Programs() {
		o.Hooks[s.Name] = s.State == "running"
	}
	m.noting.Lock()
	defer m.noting.Unlock()
	o.Notes = m.notes
	changes := e.Changes(v.Outcome, custom, o)
	if len(m.notes) == 0 && m.blank {
		return changes
	}
	err := nodestate.Dir(m.conf.paths.State).SetOffline(m.notes)
	if err != nil {
		m.log.Errorf("note why vnodes are offline: %v", err)
	}
	m.blank = err == nil && len(m.notes) == 0
	return changes
}

func (m *pbsMoM) handle(ctx context.Context, e *openpbs.Event, call api.MoMCall) (*host.Verdict, error) {
	req := e.Request
	if req.Event == hostapi.EventLaunch {
		leader, err := m.leaderOf(call)
		if err != nil {
			return nil, err
		}
		req.PID = leader
	}
	if len(e.Unasked) > 0 && req.Event == hostapi.EventBegin {
		const text = "Resource_List has %.200s, which schedselect does not ask for: hooks do not get it"
		m.log.WithField("job", req.Job.ID).Infof(text, strings.Join(e.Unasked, ", "))
	}
	if e.Refusable() {
		err := openpbs.CheckResourceList(req)
		// It is the user's mistake only as long as the job has not begun with this request.
		if err != nil && req.Event == hostapi.EventBegin {
			text := fmt.Sprintf("hookhost: %s: %v", e.Name(), err)
			m.log.WithFields(logrus.Fields{"event": req.Event, "job": req.Job.ID}).Warn(text)
			return &host.Verdict{Outcome: &hostapi.Outcome{
				Reject: true, Message: text, OnReject: hostapi.JobActionDelete,
			}}, nil
		}
		if err == nil {
			err = openpbs.CheckExecVnode(req)
		}
		if err != nil {
			return nil, hostapi.Errorf(hostapi.KindJob, "%w", err)
		}
	}
	home := pbs.HomeOfHook(m.procfs, call.Caller, m.conf.momHome)
	m.conf.receive(ctx, e.Hook)
	if err := m.conf.learnVntype(ctx, req); err != nil {
		m.log.Error(err) // the event uses what was known about the node before
	}
	return m.host.HandlePBS(ctx, req, home, m.momOf(req, call))
}

// momOf returns the pbs_mom that runs the hook of a begin: its parent.
func (m *pbsMoM) momOf(req *hostapi.Request, call api.MoMCall) (mom hostapi.ProcessID) {
	if req.Event != hostapi.EventBegin {
		return mom
	}
	hook, err := proc.Read(m.procfs, call.Caller)
	if err != nil || hook.PPID <= 1 {
		return mom
	}
	if p, err := proc.Read(m.procfs, hook.PPID); err == nil {
		mom = p.ID()
	}
	return mom
}

// leaderOf returns the leader of the session that MoM has made for a program. The leader is the
// parent of the hook, and waits for it (openpbs src/resmom/start_exec.c: finish_exec,
// start_process). The kernel identifies it, and the caller must name the same process.
func (m *pbsMoM) leaderOf(call api.MoMCall) (int, error) {
	p, err := proc.Read(m.procfs, call.Caller)
	if errors.Is(err, proc.ErrGone) {
		return 0, hostapi.Errorf(hostapi.KindBusy, "process %d, which has sent the event, is gone", call.Caller)
	}
	if err != nil {
		return 0, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	switch {
	case call.Parent != 0 && call.Parent != p.PPID:
		const text = "process %d says that its parent is %d, the kernel that it is %d"
		return 0, hostapi.Errorf(hostapi.KindNode, text, p.PID, call.Parent, p.PPID)
	case p.PPID <= 1:
		const text = "the parent of process %d, which has sent the event, is gone"
		return 0, hostapi.Errorf(hostapi.KindBusy, text, p.PID)
	}
	return p.PPID, nil
}

// mustAsk reports whether the hook has to ask the server for the state and comment of this host's
// vnodes. One of our hooks may have put them offline, and MoM does not know their current state.
func (m *pbsMoM) mustAsk(e *openpbs.Event, call api.MoMCall) bool {
	if call.Asked || e.Request.Event != hostapi.EventPeriodic {
		return false
	}
	for _, v := range e.Request.VnodeList {
		if v != nil && (v.State != "" || v.Comment != nil) {
			return false
		}
	}
	m.noting.Lock()
	defer m.noting.Unlock()
	return len(m.notes) > 0
}

// answerTo encodes changes in the format that the caller wants.
func answerTo(e *openpbs.Event, call api.MoMCall, changes *openpbs.Changes) api.MoMAnswer {
	if call.Output {
		if text, ok := e.Output(changes); ok {
			return api.MoMAnswer{Body: text, Output: true}
		}
	}
	return api.MoMAnswer{Body: changes.Fields()}
}

// has reports whether the pbs_mom with a home has a job; "" is the configured home.
func (m *pbsMoM) has(job *hostapi.Job, home string) (bool, error) {
	if home == "" {
		var err error
		if home, err = m.conf.file.Load().OpenPBS.MoMHome(); err != nil {
			return false, err
		}
	}
	if err := hostapi.CheckJobID(job.ID); err != nil {
		return false, err
	}
	return pbs.MoMHasJob(home, job.ID)
}
