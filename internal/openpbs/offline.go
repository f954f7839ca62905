package openpbs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/nodestate"
	"github.com/hookhost/hookhost/internal/pbs"
)

// Offlining is what decides, beside an event, which vnodes of this host go offline and come back.
//
// A cause is that a hook failed, or that it set the state without a comment. Hook cgroup does so
// when it cannot remove a cgroup. Each cause has a note. The shim adds the note's comment to that
// of the vnode, and does not touch an administrator's offline. While there is a note, the
// vnode_list of exechost_periodic has what the server knows. A vnode that is offline without the
// comment gets it again, because a restarted server has lost it. A server of OpenPBS 22.05 has lost
// the state, too (openpbs#2579). pbsnodes -r leaves the comment. So a vnode with the comment that
// is not offline was brought back by an administrator. It stays so until the hook fails again.
type Offlining struct {
	Notes  map[string]*nodestate.Offline // by cause; Changes updates them
	Faults []Fault                       // of the event
	SetBy  map[string]string             // the hooks that set states without a comment, by vnode
	Works  func(hook string) bool        // whether a hook that has failed runs again

	// Return brings vnodes back when cgroups are removed, or a hook that was not available runs,
	// but not before MinDelay has passed.
	Return   bool
	MinDelay time.Duration
	Now      time.Time
}

// Fault is the error of a hook for which the vnodes go offline; without Err its last one is over.
// Passes means that it ends once the hook's program runs.
type Fault struct {
	Hook   string
	Err    error
	Passes bool
}

const (
	maxCause   = 200 // bounds the error in a comment
	cgroupHook = "cgroup"
)

// addOffline adds the vnodes that go offline and come back, by cause: "failed" or "asked" and the
// hook's name.
func (e *Event) addOffline(c *Changes, out *hostapi.Outcome, o Offlining) {
	if o.Notes == nil {
		o.Notes = map[string]*nodestate.Offline{}
	}
	own, ask, over, ended := e.vnodeNames(), map[string][]string{}, map[string]bool{}, map[string]bool{}
	for _, f := range o.Faults {
		cause := "failed " + f.Hook
		if ended[cause] = f.Err == nil; f.Err != nil {
			o.note(cause, e.faultComment(f, o.Return), nodestate.Offline{Hook: f.Hook, Passes: f.Passes})
			ask[cause] = own
		}
	}
	for _, name := range slices.Sorted(maps.Keys(out.Vnodes)) {
		v, hook := out.Vnodes[name], o.SetBy[name]
		cause := "asked " + hook
		switch {
		case v == nil || v.State == "" || v.Comment != nil || !isVnodeName(name):
		case !isOffline(v.State) && hook == cgroupHook:
			over[cause] = true
		case !isOffline(v.State):
			ended[cause] = true
		case !slices.Contains(o.note(cause, e.askComment(hook, o.Return), nodestate.Offline{}).Vnodes, name):
			ask[cause] = append(ask[cause], name)
		}
	}
	for _, cause := range slices.Sorted(maps.Keys(o.Notes)) {
		n := o.Notes[cause]
		if n.Since.After(o.Now) { // the clock was set back
			n.Since = o.Now
		}
		lost, byHand := e.compare(n, own)
		ends := ended[cause] || byHand && n.Hook != "" && !n.Passes
		if over[cause] || n.Passes && len(e.known()) > 0 && o.Works(n.Hook) {
			ends = ends || byHand || o.Return && o.Now.Sub(n.Since) >= o.MinDelay
		}
		verb, names := verbOffline, slices.Concat(ask[cause], lost)
		if ends {
			verb, names = verbOnline, own
			delete(o.Notes, cause)
		}
		slices.Sort(names)
		names = slices.Compact(names)
		for _, name := range names {
			c.add(verb, name, n.Comment)
		}
		n.Vnodes = slices.Compact(slices.Sorted(slices.Values(slices.Concat(n.Vnodes, names))))
	}
}

// note returns the note of a cause, which is n with that comment if there is none.
func (o *Offlining) note(cause, comment string, n nodestate.Offline) *nodestate.Offline {
	if o.Notes[cause] == nil {
		n.Comment, n.Since = oneLine(comment), o.Now
		o.Notes[cause] = &n
	}
	return o.Notes[cause]
}

// known returns the vnodes of the event whose state and comment the server has sent.
func (e *Event) known() map[string]*hostapi.Vnode {
	known := maps.Clone(e.Request.VnodeList)
	maps.DeleteFunc(known, func(_ string, v *hostapi.Vnode) bool {
		return v == nil || v.State == "" && v.Comment == nil
	})
	return known
}

// compare returns the vnodes for which the server has to be asked again, and whether somebody has
// brought all of them back. A hook that failed concerns all vnodes of the host, although a job's
// event lists only those of the job.
func (e *Event) compare(n *nodestate.Offline, own []string) (lost []string, byHand bool) {
	known, seen, online, forgotten := e.known(), 0, 0, false
	for _, name := range own {
		v, asked := known[name], slices.Contains(n.Vnodes, name)
		if v == nil || n.Hook == "" && !asked {
			continue
		}
		seen++
		has := v.Comment != nil && strings.Contains(*v.Comment, n.Comment)
		switch {
		case isOffline(v.State) && has:
		case isOffline(v.State) || !asked:
			lost = append(lost, name)
		case has || n.Again:
			online++
		default:
			lost, forgotten = append(lost, name), true
		}
	}
	n.Again = n.Again || forgotten
	return lost, online > 0 && online == seen
}

// faultComment names hook, event and error, and what to do. It begins as PBS's own comment does
// (src/server/node_manager.c).
func (e *Event) faultComment(f Fault, returns bool) string {
	first, _, _ := strings.Cut(f.Err.Error(), "\n")
	return fmt.Sprintf("offlined by hook '%s' due to hook error: %s at %s: %s; see 'hookhost doctor' on %s; %s", e.Hook,
		f.Hook, e.Request.Event, hostapi.Clip(first, maxCause), e.Request.Node,
		e.remedy(f.Passes && returns, "the hook works"))
}

// askComment is the comment of vnodes that a hook takes offline without one.
func (e *Event) askComment(hook string, returns bool) string {
	if hook != cgroupHook {
		return fmt.Sprintf("offlined by hook '%s'; see the daemon's log on %s; %s", hook, e.Request.Node,
			e.remedy(true, "it says so"))
	}
	job := ""
	if e.Request.Job != nil {
		job = " of job " + e.Request.Job.ID
	}
	return fmt.Sprintf("%s%s; the daemon's log on %s names the processes; %s", pbs.CleanUpComment, job,
		e.Request.Node, e.remedy(returns, "they are gone"))
}

func (e *Event) remedy(returns bool, when string) string {
	if returns {
		return "the vnodes return when " + when
	}
	return "then pbsnodes -r " + e.Request.Node
}
