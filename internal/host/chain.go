package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/plugin"
)

// link is a hook's place in the chain. Everything but the name may change while the chain runs.
type link interface {
	Hook() plugin.Hook
	Gets(hostapi.Event) bool
	Call(context.Context, *hostapi.Request) (*hostapi.Outcome, error)
}

// chain is one event on its way through the hooks.
//
// Hooks are called in ascending order. The first reject or error ends an event that StopsAtReject.
// At other events every hook is called, and the messages are joined. As in PBS, the outcome of a
// hook counts whether it accepted or not. An error at execjob_preterm is only logged: a hook that
// fails must not keep a job alive.
//
// A hook that rejects without an error decides what happens to the job (Outcome.OnReject). If it
// leaves that empty, MoM's own rule applies. If a hook fails before the job's program runs, the
// kind of its error decides, following the error classes of pbs_cgroups. At the other events MoM's
// rule applies:
//
//	kind       begin, prologue, launch   attribute of the hook
//	job        delete                    -
//	busy       rerun                     -
//	node       rerun                     on_node_error
//	timeout    rerun                     on_alarm (the program was killed)
//	internal   hold                      on_defect
//
// The attribute is node, job or nothing (plugin.Attributes.Blames). With node the vnodes go
// offline, too. With nothing, an event that StopsAtReject goes on as if the hook had accepted it.
//
// hold protects the node: otherwise a job that triggers a defect would do so again ten times a
// second.
type chain struct {
	links  []link
	req    *hostapi.Request           // as the next hook gets it; the chain does not share its Env
	states map[string]json.RawMessage // of the job, by hook
	hosted func(hook string) map[string]*hostapi.Job

	merged  merger
	answers []answer // of the hooks that were called
	verdict Verdict
	says    []string
}

// answer is a hook's answer to the event.
type answer struct {
	link   link
	hook   string
	out    *hostapi.Outcome // never nil
	err    error
	undone bool                       // nothing remains of the event: the hook refused it, or never got it
	before map[string]json.RawMessage // Job.State of each job in its JobList, as it got it
}

// newChain returns the chain for an event.
func (h *Host) newChain(e *event) *chain {
	c := &chain{links: h.links(), req: e.req}
	switch {
	case !e.req.Event.ForJob():
		c.hosted = h.hosted()
	case e.rec != nil:
		c.states = maps.Clone(e.rec.HookState)
		if e.req.Event == hostapi.EventAttach {
			c.links = attachLinks(c.links, e.rec)
		}
	}
	return c
}

func (c *chain) run(ctx context.Context) *Verdict {
	for _, l := range c.links {
		if !l.Gets(c.req.Event) {
			continue
		}
		hook := l.Hook()
		req := c.request(hook.Name)
		answered := calls(ctx, hook.Name)
		out, err := l.Call(ctx, req)
		answered()
		if out == nil && err == nil {
			continue // the program turned out not to handle the event
		}
		undone := refused(out, err)
		out = whatHolds(out, err)
		if foreign := foreignVnodes(c.req, out); foreign != nil {
			err = errors.Join(err, foreign)
		}
		if hook.BuiltIn {
			put(&c.merged.builtIn, hook.Name, true)
		}
		if conflict := c.merged.add(hook.Name, out); conflict != nil {
			err = errors.Join(err, conflict)
		}
		if states := statesSet(out.Vnodes); len(states) > 0 {
			put(&c.verdict.States, hook.Name, states)
		}
		c.cascade(out)
		if out.State != nil {
			put(&c.states, hook.Name, out.State)
		}
		c.answers = append(c.answers,
			answer{link: l, hook: hook.Name, out: out, err: err, undone: undone, before: statesOf(req.JobList)})
		ok := c.judge(hook, out, err)
		if !(c.judgeCharged() && ok) && c.req.Event.StopsAtReject() {
			break
		}
	}
	c.verdict.Outcome = &c.merged.out
	c.verdict.Add(strings.Join(c.says, "; "))
	return &c.verdict
}

// whatHolds returns the part of an outcome that is used, never nil. If there is an error, that is
// only the usage that the hook measured before it failed.
func whatHolds(out *hostapi.Outcome, err error) *hostapi.Outcome {
	switch {
	case out == nil:
		return &hostapi.Outcome{}
	case err == nil:
		return out
	}
	return &hostapi.Outcome{
		ResourcesUsed: out.ResourcesUsed, Usage: out.Usage, Diag: out.Diag, JobStderr: out.JobStderr, Notes: out.Notes,
		Jobs: out.Jobs, State: out.State, Vnodes: out.Vnodes,
	}
}

// statesSet returns the states that a hook sets without a comment.
func statesSet(vnodes map[string]*hostapi.Vnode) map[string]string {
	states := map[string]string{}
	for name, v := range vnodes {
		if v != nil && v.State != "" && v.Comment == nil {
			states[name] = v.State
		}
	}
	return states
}

// request returns the event as the hook gets it.
func (c *chain) request(hook string) *hostapi.Request {
	req := *c.req
	if c.req.Job != nil {
		job := *c.req.Job
		job.State = c.states[hook]
		req.Job = &job
	}
	if c.hosted != nil {
		req.JobList = c.hosted(hook)
	}
	return &req
}

// cascade passes a hook's changes to the program, which is about to be launched, on to the next
// hook.
func (c *chain) cascade(out *hostapi.Outcome) {
	if c.req.Event != hostapi.EventLaunch {
		return
	}
	if out.Progname != nil {
		c.req.Progname = *out.Progname
	}
	if out.Argv != nil {
		c.req.Argv = out.Argv
	}
	if len(out.SetEnv) == 0 && len(out.UnsetEnv) == 0 {
		return
	}
	env := make(map[string]string, len(c.req.Env)+len(out.SetEnv))
	maps.Copy(env, c.req.Env)
	maps.Copy(env, c.merged.out.SetEnv)
	for _, name := range c.merged.out.UnsetEnv {
		delete(env, name)
	}
	c.req.Env = env
}

// judge adds a hook's answer to the verdict. It returns false if the answer is a reject.
func (c *chain) judge(hook plugin.Hook, out *hostapi.Outcome, err error) bool {
	accepted, kind := err == nil && !out.Reject, hostapi.KindOf(err)
	if accepted || failure(kind) {
		for _, f := range hook.FailActions(c.req.Event, kind) {
			if acts := &c.merged.out.FailAction; !slices.Contains(*acts, string(f)) {
				*acts = append(*acts, string(f))
			}
			if f != plugin.FailSchedulerRestart {
				c.verdict.Faults = append(c.verdict.Faults, Fault{hook.Name, err})
			}
		}
	}
	if accepted {
		return true
	}
	action, says := out.OnReject, fmt.Sprintf("%s request rejected by '%s'", c.req.Event, hook.Name)
	if out.Message != "" {
		says += ": " + out.Message
	}
	ignored := err != nil && (c.req.Event == hostapi.EventPreterm ||
		c.req.Event.StopsAtReject() && hook.Blames(kind) == plugin.BlameNothing)
	switch {
	case ignored:
		says = fmt.Sprintf("%s hook '%s' failed, request accepted: %v", c.req.Event, hook.Name, err)
	case err != nil:
		action, says = ActionOn(c.req.Event, kind), complaint(c.req.Event, hook.Name, kind, err)
	}
	c.says = append(c.says, says)
	rejected := !ignored
	if !c.merged.out.Reject {
		c.merged.out.Reject, c.merged.out.OnReject = rejected, action
		c.verdict.Hook, c.verdict.Kind = hook.Name, kind
	}
	return !rejected
}

// judgeCharged adds the errors of hooks whose earlier answers turned out to contradict a later one.
// It returns false if there is one.
func (c *chain) judgeCharged() bool {
	ok := true
	for i := range c.answers {
		a := &c.answers[i]
		if err := c.merged.charged[a.hook]; err != nil {
			a.err = errors.Join(a.err, err)
			ok = c.judge(a.link.Hook(), a.out, err) && ok
		}
	}
	c.merged.charged = nil
	return ok
}

// failure reports whether the hook or the node failed, not the job.
func failure(kind hostapi.Kind) bool {
	switch kind {
	case hostapi.KindNode, hostapi.KindTimeout, hostapi.KindInternal:
		return true
	}
	return false
}

// ActionOn returns what happens to a job whose event failed with an error of that kind; see chain.
func ActionOn(e hostapi.Event, kind hostapi.Kind) hostapi.JobAction {
	if !e.Starts() {
		return hostapi.JobActionNone
	}
	switch kind {
	case hostapi.KindJob:
		return hostapi.JobActionDelete
	case hostapi.KindBusy, hostapi.KindNode, hostapi.KindTimeout:
		return hostapi.JobActionRerun
	}
	return hostapi.JobActionHold
}

// complaint formats an error as MoM's log does.
func complaint(e hostapi.Event, hook string, kind hostapi.Kind, err error) string {
	switch kind {
	case hostapi.KindJob, hostapi.KindBusy:
		return fmt.Sprintf("%s request rejected by '%s': %v", e, hook, err)
	case hostapi.KindTimeout:
		return fmt.Sprintf("alarm call while running %s hook '%s', request rejected: %v", e, hook, err)
	}
	return fmt.Sprintf("%s hook '%s' encountered an exception, request rejected: %v", e, hook, err)
}

// refused reports whether, by contract, nothing of the event can remain: begin is all or nothing. A
// hook that rejects begin, or answers with an error of kind job, busy or node, has already undone
// its part. So a begin that is refused because the job is already running does not tear that job
// down. A hook that crashed, overran its alarm or failed for an internal reason has promised
// nothing.
func refused(out *hostapi.Outcome, err error) bool {
	if err == nil {
		return out.Reject
	}
	if lost, is := errors.AsType[plugin.Unanswered](err); is {
		return !lost.Got
	}
	switch hostapi.KindOf(err) {
	case hostapi.KindJob, hostapi.KindBusy, hostapi.KindNode:
		return true
	}
	return false
}

// undo sends the event's opposite, in reverse order, to the hooks that accepted the event. A hook
// that failed during the event also gets it, because something may remain. A hook that refused the
// event does not. undo continues after failures and joins the errors.
func (c *chain) undo(ctx context.Context) error {
	var errs []error
	event := c.req.Event.Undo()
	for _, a := range slices.Backward(c.answers) {
		if a.undone || !a.link.Gets(event) {
			continue
		}
		req := c.request(a.hook)
		req.Event = event
		out, err := a.link.Call(ctx, req)
		if out != nil && out.State != nil {
			a.out.State = out.State
		}
		if err == nil && out != nil && out.Reject {
			err = errors.New(out.Message)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s hook '%s': %w", event, a.hook, err))
		}
	}
	return errors.Join(errs...)
}

// aside returns a copy of the chain with the findings about single jobs. Later changes to c do not
// affect it.
func (c *chain) aside() *chain {
	own := &chain{answers: c.answers}
	own.merged.out.Jobs = make(map[string]*hostapi.JobUpdate, len(c.merged.out.Jobs))
	for id, u := range c.merged.out.Jobs {
		update := *u
		update.ResourcesUsed = maps.Clone(u.ResourcesUsed)
		own.merged.out.Jobs[id] = &update
	}
	return own
}

// failures returns the errors of the hooks that were called, nil when all succeeded. A reject is
// not an error.
func (c *chain) failures() error {
	var errs []error
	for _, a := range c.answers {
		if a.err != nil {
			errs = append(errs, fmt.Errorf("hook %s: %w", a.hook, a.err))
		}
	}
	return errors.Join(errs...)
}

func statesOf(jobs map[string]*hostapi.Job) map[string]json.RawMessage {
	states := make(map[string]json.RawMessage, len(jobs))
	for id, j := range jobs {
		states[id] = j.State
	}
	return states
}
