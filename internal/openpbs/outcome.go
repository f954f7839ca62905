package openpbs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

// The texts for MoM when fail_action acts (src/resmom/mom_hook_func.c, src/server/node_manager.c:
// the same words).
const (
	failOffline = "offline_vnodes"
	failClear   = "clear_vnodes_upon_recovery"
	failRestart = "scheduler_restart_cycle"
)

const systemHold = " (system hold set)"

// allowed says what PBS lets a hook change in an event (docs of pbs.event();
// src/lib/Libpython/pbs_python_svr_internal.c).
type allowed struct {
	used   bool // resources_used of event.job
	jobs   bool // of job_list
	vnodes bool
	launch bool // progname, argv, env
	action bool // rerun, delete, Hold_Types

	restart bool // the scheduler's cycle: only in these events, for fail_action (pbs_hook_attributes(7B))
}

func allowedIn(e hostapi.Event) allowed {
	switch e {
	case hostapi.EventAttach, hostapi.EventResize:
		return allowed{}
	case hostapi.EventStartup:
		return allowed{vnodes: true}
	case hostapi.EventPeriodic:
		return allowed{vnodes: true, jobs: true}
	case hostapi.EventLaunch:
		return allowed{used: true, vnodes: true, launch: true, action: true}
	}
	return allowed{used: true, vnodes: true, action: true,
		restart: e == hostapi.EventBegin || e == hostapi.EventPrologue}
}

// Changes returns the changes to e in the hooks' merged outcome, as far as PBS lets a hook make
// them in that event. A change that PBS does not allow is left out and named in one log line of
// level debug. Changes meant only for the host are left out silently. These are resources_used in
// attach and resize, the environment in attach, and in exechost_periodic resources_used of jobs
// that are not in its list.
//
// walltime and ncpus are never among resources_used, because MoM counts them itself. A walltime set
// by a hook would stop MoM's clock and so the job's limit. A custom resource that the server does
// not know (custom) is left out of resources_used, and named in the same log line. At
// exechost_startup the server gets diag_messages and host_usage, and then creates these resources.
// diag_messages, such as an OOM kill, are also logged in MoM's log, unless MoM knows them already.
// The result depends only on the arguments, and is in the order of Changes. The notes of o are
// brought up to date.
func (e *Event) Changes(out *hostapi.Outcome, custom Custom, o Offlining) *Changes {
	if out == nil {
		out = &hostapi.Outcome{}
	}
	c := &Changes{}
	may := allowedIn(e.Request.Event)
	dropped := e.addUsed(c, out, custom)
	drop := func(held bool, what string) {
		if held {
			dropped = append(dropped, what)
		}
	}

	if may.vnodes {
		e.addVnodes(c, out, custom, o)
	} else {
		drop(len(out.Vnodes) > 0, "vnodes")
		drop(slices.Contains(out.FailAction, failOffline) || slices.Contains(out.FailAction, failClear),
			"fail_action on vnodes")
	}

	if may.launch {
		dropped = append(dropped, e.addLaunch(c, out)...)
	} else {
		drop(out.Progname != nil, "progname")
		drop(out.Argv != nil, "argv")
		drop(e.Request.Event != hostapi.EventAttach && (len(out.SetEnv) > 0 || len(out.UnsetEnv) > 0), "env")
	}

	action := out.OnReject
	if !out.Reject {
		action = hostapi.JobActionNone
	}
	drop(action != hostapi.JobActionNone && !may.action, "job_action "+string(action))
	if !may.action {
		action = hostapi.JobActionNone
	}
	restart := slices.Contains(out.FailAction, failRestart)
	drop(restart && !may.restart, "fail_action on the scheduler")
	e.addVerdict(c, out.Reject, out.Message, action, restart && may.restart)
	e.logDiag(c, out, custom)
	if len(dropped) > 0 {
		c.Log("debug", fmt.Sprintf("hookhost: %s cannot change %s", e.Request.Event, strings.Join(dropped, ", ")))
	}
	return c
}

// Failed returns the answer to an event that could not be carried out: accept, or reject with
// message. text goes first to MoM's log at level (error, warning, debug; "" logs nothing). A
// rejected begin, prologue or launch is rerun.
func (e *Event) Failed(level, text string, reject bool, message string) *Changes {
	c := &Changes{}
	action := hostapi.JobActionNone
	if reject && e.Request.Event.Starts() {
		action = hostapi.JobActionRerun
	}
	e.addVerdict(c, reject, message, action, false)
	if level != "" {
		c.Log(level, text)
	}
	return c
}

// Late returns the answer to an event that is not over in time. A refusable event is rejected with
// text, and its job rerun if the event starts something. All others are accepted. text goes to
// MoM's log as an error.
func (e *Event) Late(text string) *Changes {
	return e.Failed("error", text, e.Refusable(), text)
}

// addVerdict adds hold, rerun or delete, restart, and accept or reject.
func (e *Event) addVerdict(c *Changes, reject bool, message string, action hostapi.JobAction, restart bool) {
	if message = oneLine(message); message == "" {
		message = fmt.Sprintf("hookhost: %s rejected", e.Request.Event)
	}
	switch action {
	case hostapi.JobActionHold:
		c.add(verbHold)
		c.add(verbRerun)
		if !strings.HasSuffix(message, systemHold) {
			message += systemHold
		}
	case hostapi.JobActionRerun:
		c.add(verbRerun)
	case hostapi.JobActionDelete:
		c.add(verbDelete)
	}
	if restart {
		c.add(verbRestart)
	}
	if reject {
		c.add(verbReject, message)
	} else {
		c.add(verbAccept)
	}
}

// addLaunch adds a hook's changes to the program that MoM is about to start, and returns those that
// it cannot make.
func (e *Event) addLaunch(c *Changes, out *hostapi.Outcome) (dropped []string) {
	if out.Progname != nil {
		c.add(verbProgname, *out.Progname)
	}
	if argv, changed := e.newArgv(out); changed {
		c.add(verbArgv)
		for _, arg := range argv {
			c.add(verbArg, arg)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(out.SetEnv)) {
		v := newVariable(name, out.SetEnv[name])
		had, there := e.Request.Env[name]
		switch {
		case !v.passes():
			dropped = append(dropped, "variable "+oneLine(name))
		case !there || had != v.value:
			c.add(verbSetenv, name, v.value)
		}
	}
	for _, name := range slices.Sorted(slices.Values(out.UnsetEnv)) {
		if _, set := out.SetEnv[name]; !set {
			c.add(verbUnsetenv, name)
		}
	}
	return dropped
}

// newArgv returns the arguments for MoM, with the program's name first. If that was the program's
// path, it stays the path.
func (e *Event) newArgv(out *hostapi.Outcome) (argv []string, changed bool) {
	switch {
	case out.Argv == nil && (out.Progname == nil || len(e.argv) == 0):
		return nil, false
	case len(e.argv) == 0 && len(out.Argv) == 0:
		return nil, false
	}
	name := e.progname
	if len(e.argv) > 0 {
		name = e.argv[0]
	}
	if out.Progname != nil && name == e.progname {
		name = *out.Progname
	}
	if out.Argv != nil {
		return append([]string{name}, out.Argv...), true
	}
	if name == e.argv[0] {
		return nil, false
	}
	return append([]string{name}, e.argv[1:]...), true
}
