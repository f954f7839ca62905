package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/integrations/openpbs"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/pbs"
)

// registered is our hook as registered at the server.
type registered struct{ *openpbs.Hook }

// examineAttributes reports attributes of our enabled hook that restrict hookhost, and the
// consequences of each. hooks are the daemon's: none if it does not run.
func (n *Node) examineAttributes(h *openpbs.Hook, hooks []api.HookInfo) []Finding {
	r := registered{h}
	return slices.Concat(r.events(), r.waiting(hooks), r.user(), r.alarm(n.slowestHook()), r.freq(n.Settings.File),
		r.failAction())
}

// slowestHook returns the hook of this node with the longest alarm.
func (n *Node) slowestHook() (name string, alarm time.Duration) {
	r, err := n.Hooks()
	if err != nil {
		return "", 0
	}
	hooks, _ := r.List() // examineHooks reports hooks that cannot be read
	for _, h := range hooks {
		if a := time.Duration(h.Alarm) * time.Second; h.Enabled && h.Fault == "" && a > alarm {
			name, alarm = h.Name, a
		}
	}
	return name, alarm
}

func (r registered) what(attribute string) string { return "PBS hook " + r.Name + " " + attribute }

// qmgr returns the command that fixes an attribute.
func (r registered) qmgr(assignment string) string {
	return "on the PBS server's host: qmgr -c 'set hook " + r.Name + " " + assignment + "'"
}

// withoutEvent says what does not happen if MoM does not call the hook at an event that hookhost
// needs.
var withoutEvent = map[string]string{
	"execjob_begin": "a job gets its cgroup only at its launch, " +
		"so a job for which there is no room is refused only then",
	"execjob_launch": "the programs that pbs_mom starts run outside their jobs' cgroups: nothing confines them",
	"execjob_attach": "processes that pbs_attach adds to a job are not confined",
	"execjob_epilogue": "processes that a job leaves behind live until its end, " +
		"and its last usage is not reported to PBS",
	"execjob_end": "the cgroup of a job that has ended, with its cpus and devices, " +
		"stays until an exechost_periodic finds it",
	"execjob_preterm": "a suspended job that is deleted is killed without its SIGTERM",
	"exechost_periodic": "PBS does not get the usage of running jobs, hookhost does not learn which jobs are gone, " +
		"and vnodes that hookhost put offline stay offline",
	"exechost_startup": "the resources of this host are not reported to PBS",
	"execjob_resize":   "a job that PBS resizes keeps its old limits",
	"execjob_abort": "a job that is abandoned before it runs keeps its cgroup, with its cpus and devices, " +
		"until an exechost_periodic finds it",
	"execjob_postsuspend": "a suspended job is not frozen, and other jobs cannot use its cpus",
	"execjob_preresume":   "a frozen job does not continue when it is resumed",
}

// events reports events at which the hook is not called, as in the registration of an older
// version, and events of the server.
func (r registered) events() []Finding {
	what := r.what("event")
	if r.Attributes["event"] == "" {
		return []Finding{impossible(what, "it is not called at any event, so pbs_mom does not call hookhost",
			r.qmgr(`event = "`+strings.Join(openpbs.Default().Events(), ",")+`"`))}
	}
	called := strings.Split(r.Attributes["event"], ",")
	var missing, lost []string
	for _, e := range openpbs.Default().Events() {
		if !slices.Contains(called, e) {
			missing, lost = append(missing, e), append(lost, "at "+e+": "+withoutEvent[e])
		}
	}
	other := slices.DeleteFunc(called, func(e string) bool { return slices.Contains(openpbs.Events(), e) })
	var findings []Finding
	if len(missing) > 0 {
		f := degraded(what, "it is not called "+strings.Join(lost, "; "),
			r.qmgr(`event += "`+strings.Join(missing, ",")+`"`))
		if slices.Contains(missing, "execjob_launch") {
			f.Status = Impossible
		}
		findings = append(findings, f)
	}
	if len(other) > 0 {
		list := strings.Join(other, ",")
		findings = append(findings, degraded(r.what("other events"),
			"it is called at "+list+" too, where it does nothing: the server only waits for it",
			r.qmgr(`event -= "`+list+`"`)))
	}
	return findings
}

// waiting reports hooks that wait for an event which PBS does not send. events reports those that
// hookhost itself needs.
func (r registered) waiting(hooks []api.HookInfo) []Finding {
	called := strings.Split(r.Attributes["event"], ",")
	var findings []Finding
	for _, h := range hooks {
		for _, e := range h.Events {
			event := string(e)
			if slices.Contains(called, event) || slices.Contains(openpbs.Default().Events(), event) {
				continue
			}
			findings = append(findings, degraded(r.what("event "+event),
				"hook "+h.Name+" waits for it, but PBS does not send it",
				"on the PBS server's host: hookhost openpbs install --event "+event+
					", or what 'hookhost openpbs print --event "+event+"' prints"))
		}
	}
	return findings
}

// ownersEvents are the events for which the attribute user matters (run_hook in mom_hook_func.c,
// USER_MOM_EVENTS in hook.h).
var ownersEvents = []string{"execjob_prologue", "execjob_epilogue", "execjob_preterm"}

// user reports a hook registered with user=pbsuser. MoM runs it as the job's owner at ownersEvents,
// and the daemon accepts events only from root.
func (r registered) user() []Finding {
	called := strings.Split(r.Attributes["event"], ",")
	at := slices.DeleteFunc(called, func(e string) bool { return !slices.Contains(ownersEvents, e) })
	user := r.Attributes["user"]
	if user == "pbsadmin" || len(at) == 0 {
		return nil
	}
	f := degraded(r.what("user"), "it is "+user+": pbs_mom runs it as the job's owner at "+strings.Join(at, ",")+
		", and the daemon does not accept events from users", r.qmgr("user = pbsadmin"))
	if slices.Contains(at, "execjob_prologue") {
		f.Status = Impossible
		f.Found += ". No job gets past its prologue, " +
			"unless unconfined in [shim] is true"
	}
	return []Finding{f}
}

// alarm compares the time that MoM gives the hook with the longest alarm of the node's own hooks,
// which is called slowest. A later answer counts as a failed daemon, and a hook that hangs is
// noticed too late.
func (r registered) alarm(slowest string, needs time.Duration) []Finding {
	n, err := strconv.Atoi(r.Attributes["alarm"])
	within := pbs.AnswerWithin(time.Duration(n) * time.Second)
	if err != nil || within >= needs {
		return nil
	}
	enough := openpbs.Default().Alarm
	for pbs.AnswerWithin(time.Duration(enough)*time.Second) < needs {
		enough++
	}
	return []Finding{degraded(r.what("alarm"), fmt.Sprintf("it is %d: hookhost has to answer within %g s, "+
		"and hook %s may take %g s. If a begin or launch takes longer, it fails; other events continue without "+
		"their answer. If a hook hangs, its fail_action comes too late", n, within.Seconds(), slowest, needs.Seconds()),
		r.qmgr("alarm = "+strconv.Itoa(enough)))}
}

// freq compares freq with mom_margin. If qalter changes the walltime of a running job, only
// exechost_periodic brings the new value.
func (r registered) freq(cfg *config.File) []Finding {
	n, err := strconv.Atoi(r.Attributes["freq"])
	margin, freq := time.Duration(cfg.Walltime.MoMMargin), time.Duration(n)*time.Second
	if err != nil || !cfg.Host.Enabled || !cfg.Walltime.Enabled || freq < margin {
		return nil
	}
	advice := "mom_margin in [walltime]: more than " + briefly(config.Duration(freq))
	if usual := openpbs.Default().Freq; time.Duration(usual)*time.Second < margin {
		advice = r.qmgr("freq = "+strconv.Itoa(usual)) + "; or " + advice
	}
	return []Finding{degraded(r.what("freq"), fmt.Sprintf("it is %d, and mom_margin in [walltime] is %s: "+
		"a job whose walltime was extended by qalter may be ended before an exechost_periodic reports that",
		n, briefly(cfg.Walltime.MoMMargin)), advice)}
}

// failAction is the site's choice: reported, but not as a problem.
func (r registered) failAction() []Finding {
	action, usual := r.Attributes["fail_action"], openpbs.Default().FailAction
	if slices.Contains(strings.Split(action, ","), usual) {
		return nil
	}
	f := ok(r.what("fail_action"), "it is "+action+": if the hook itself crashes or exceeds its alarm, "+
		"the node stays online and runs the next job")
	f.Advice = "to use the default, " + r.qmgr("fail_action = "+usual)
	return []Finding{f}
}
