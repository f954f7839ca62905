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
// Each cause has a note, whose key is the kind of cause and the hook's name. It ends when
//
//	failed HOOK       an administrator brings the vnodes back, or clear_vnodes_upon_recovery acts
//	unavailable HOOK  the hook's program runs
//	asked HOOK        the hook, which had set the state without a comment, sets another state
//
// The shim adds the note's comment to that of the vnode, and does not touch an administrator's
// offline. While there is a note, the vnode_list of exechost_periodic has what the server knows.
// Only then do vnodes come back, because the shim has to remove the comment.
//
// A vnode that is offline without the comment gets it again: a restarted server has lost it. A
// server of OpenPBS 22.05 has lost the state, too (openpbs#2579). pbsnodes -r leaves the comment.
// So a vnode with the comment that is not offline was brought back by an administrator. It stays so
// until the hook fails again.
type Offlining struct {
	Notes  map[string]*nodestate.Offline // by cause; Changes updates them
	Faults []Fault                       // of the event
	States map[string]map[string]string  // that hooks set without a comment, by hook and vnode
	Hooks  map[string]bool               // the hooks in force, and whether their programs run
	Late   bool                          // nobody waits for the answer any more

	// Return brings vnodes back when cgroups are removed, or a hook that was not available runs,
	// but not before MinDelay has passed.
	Return   bool
	MinDelay time.Duration
	Now      time.Time
}

// Fault is the error of a hook for which the vnodes go offline; without Err earlier ones are over.
// Unavailable means that it is over once the hook's program runs.
type Fault struct {
	Hook        string
	Err         error
	Unavailable bool
}

// The kinds of causes.
const (
	failed      = "failed "
	unavailable = "unavailable "
	asked       = "asked "
)

const (
	maxCause   = 200 // bounds the error in a comment
	cgroupHook = "cgroup"
)

// addOffline adds the vnodes that go offline, and then those that come back. In this order the shim
// sees in the comments that one cause is left when another one is over.
func (e *Event) addOffline(c *Changes, o Offlining) {
	if o.Notes == nil {
		o.Notes = map[string]*nodestate.Offline{}
	}
	known, own := e.known(), e.vnodeNames()
	if o.Late {
		known = nil
	}
	ask := e.causes(o, own)
	var over []Change
	for _, cause := range slices.Sorted(maps.Keys(o.Notes)) {
		n := o.Notes[cause]
		if n.Since.After(o.Now) { // the clock was set back
			n.Since = o.Now
		}
		concerns := own // a hook that fails harms all vnodes, although a job's event lists only the job's
		if strings.HasPrefix(cause, asked) {
			concerns = slices.DeleteFunc(slices.Clone(own), func(name string) bool {
				return !slices.Contains(n.Vnodes, name)
			})
		}
		lost, byHand := compare(n, known, concerns)
		if len(known) > 0 && o.ends(cause, n, byHand) {
			for _, name := range own {
				over = append(over, Change{verbOnline, []string{name, n.Comment}})
			}
			delete(o.Notes, cause)
			continue
		}
		names := slices.Compact(slices.Sorted(slices.Values(slices.Concat(ask[cause], lost))))
		for _, name := range names {
			c.add(verbOffline, name, n.Comment)
		}
		n.Vnodes = slices.Compact(slices.Sorted(slices.Values(slices.Concat(n.Vnodes, names))))
	}
	c.List = append(c.List, over...)
}

// causes notes which causes the event has and which it ends, and returns the vnodes to take offline
// by cause.
func (e *Event) causes(o Offlining, own []string) (ask map[string][]string) {
	ask = map[string][]string{}
	note := func(cause, comment string) *nodestate.Offline {
		if o.Notes[cause] == nil {
			o.Notes[cause] = &nodestate.Offline{Comment: oneLine(comment), Since: o.Now}
		}
		o.Notes[cause].Over = false
		return o.Notes[cause]
	}
	end := func(cause string) {
		if n := o.Notes[cause]; n != nil {
			n.Over = true
		}
	}
	for _, f := range o.Faults {
		switch {
		case f.Err == nil:
			end(failed + f.Hook)
			end(unavailable + f.Hook)
		case f.Unavailable:
			note(unavailable+f.Hook, e.faultComment(f, o.Return))
			ask[unavailable+f.Hook] = own
		default:
			note(failed+f.Hook, e.faultComment(f, o.Return))
			ask[failed+f.Hook] = own
		}
	}
	for hook, states := range o.States {
		cause := asked + hook
		var names []string
		for name, state := range states {
			if isVnodeName(name) && isOffline(state) {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			end(cause)
			continue
		}
		n := note(cause, e.askComment(hook, o.Return))
		ask[cause] = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(n.Vnodes, name) })
	}
	return ask
}

// ends reports whether the vnodes of a cause come back. byHand means that an administrator has
// brought them back, so only the comment is left.
func (o *Offlining) ends(cause string, n *nodestate.Offline, byHand bool) bool {
	kind, hook, _ := strings.Cut(cause, " ")
	runs, inForce := o.Hooks[hook]
	rested := byHand || o.Return && o.Now.Sub(n.Since) >= o.MinDelay
	switch kind + " " {
	case failed:
		return n.Over || byHand
	case unavailable:
		return n.Over || (runs || !inForce) && rested
	}
	return (n.Over || !inForce) && (rested || hook != cgroupHook)
}

// known returns the vnodes of the event whose state and comment the server has sent.
func (e *Event) known() map[string]*hostapi.Vnode {
	known := maps.Clone(e.Request.VnodeList)
	maps.DeleteFunc(known, func(_ string, v *hostapi.Vnode) bool {
		return v == nil || v.State == "" && v.Comment == nil
	})
	return known
}

// compare returns the vnodes for which PBS has to be asked again, and whether an administrator has
// brought all of them back. concerns are the vnodes of the cause.
func compare(n *nodestate.Offline, known map[string]*hostapi.Vnode, concerns []string) (lost []string, byHand bool) {
	seen, online, forgotten := 0, 0, false
	for _, name := range concerns {
		v := known[name]
		if v == nil {
			continue
		}
		seen++
		has := v.Comment != nil && strings.Contains(*v.Comment, n.Comment)
		switch {
		case isOffline(v.State) && has:
		case isOffline(v.State) || !slices.Contains(n.Vnodes, name):
			lost = append(lost, name)
		case has || n.Final:
			online++
		default:
			lost, forgotten = append(lost, name), true
		}
	}
	byHand = online > 0 && online == seen
	n.Final = n.Final || forgotten || byHand
	return lost, byHand
}

// faultComment names hook, event and error, and what to do. It begins as PBS's own comment does
// (src/server/node_manager.c).
func (e *Event) faultComment(f Fault, returns bool) string {
	first, _, _ := strings.Cut(f.Err.Error(), "\n")
	return fmt.Sprintf("offlined by hook '%s' due to hook error: %s at %s: %s; see 'hookhost doctor' on %s; %s", e.Hook,
		f.Hook, e.Request.Event, hostapi.Clip(first, maxCause), e.Request.Node,
		e.remedy(f.Unavailable && returns, "the hook works"))
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
