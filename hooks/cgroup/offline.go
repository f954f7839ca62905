package main

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/nodestate"
	"github.com/hookhost/hookhost/internal/pbs"
)

// A job's cgroup that cannot be removed within kill_timeout holds cpus and memory that PBS is about
// to give to the next job. So all vnodes of the host go offline, with a comment that says why. They
// come back when everything is gone (openpbs pbs_cgroups.PY, take_node_offline and
// bring_node_online). A note in the state directory says that this hook did it, since hook, host
// and machine may be started again meanwhile.
//
// The hook says a state without a comment. The shim adds the comment and takes it back, and leaves
// an administrator's offline alone (internal/openpbs, offline and online). PBS's word on state and
// comment comes with exechost_periodic, in vnode_list, while there is a note. A server that was
// restarted has lost the comment, and gets it again.

const (
	// offlineComment is the text that vnodes get. PBS's own hook knows its vnodes by it.
	offlineComment = pbs.CleanUpComment

	stateOffline = "offline"
	stateFree    = "free"
)

// cannotRemove reports whether an error of kill or remove says that something of a job is there to
// stay.
func cannotRemove(err error) bool {
	return errors.Is(err, cgroup.ErrNotEmpty) || errors.Is(err, cgroup.ErrBusy)
}

// stuck has PBS take the host's vnodes offline if err says that something of a job stays. An event
// without vnode_list (hookhost's own timer sends such ones) is answered in the same way, but is no
// word from PBS. The next event with a list is answered once more. After that a vnode that is on
// line is so by the administrator's will, and stays there.
func (h *hook) stuck(req *hostapi.Request, out *hostapi.Outcome, err error) error {
	if out == nil || !cannotRemove(err) {
		return nil
	}
	h.offlining.Lock()
	defer h.offlining.Unlock()
	o, readErr := h.kept.Offline()
	if readErr != nil {
		h.log.Errorf("vnodes may have been offline before: %v", readErr)
	}
	names := h.policy.ownVnodes(h.node(), req.Node, req.VnodeList)
	switch {
	case o == nil:
		o = &nodestate.Offline{Since: time.Now()}
		h.log.Error("the vnodes of this host go offline: a cgroup could not be removed")
	case o.Told: // the list of a job's event has the vnodes of that job alone
		names = slices.DeleteFunc(names, func(name string) bool {
			return !lostComment(req.VnodeList[name]) && (o.Vnodes == nil || slices.Contains(o.Vnodes, name))
		})
	}
	if len(req.VnodeList) > 0 {
		o.Told = true
		o.Vnodes = slices.Compact(slices.Sorted(slices.Values(append(o.Vnodes, names...))))
	}
	setState(out, names, stateOffline)
	return h.kept.SetOffline(o)
}

// repeat is stuck where the vnodes are to be offline already, and PBS may not know it yet.
func (h *hook) repeat(req *hostapi.Request, out *hostapi.Outcome, left error) error {
	if o, err := h.kept.Offline(); o == nil || err != nil {
		return err
	}
	return h.stuck(req, out, left)
}

// recovered has PBS put vnodes on line that this hook has put offline, when nothing is left and the
// least time is over.
func (h *hook) recovered(req *hostapi.Request, out *hostapi.Outcome, now time.Time) error {
	h.offlining.Lock()
	defer h.offlining.Unlock()
	o, err := h.kept.Offline()
	if err != nil {
		return hostapi.Errorf(hostapi.KindNode, "vnodes may be offline: %w", err)
	}
	if o == nil {
		return nil
	}
	if o.Since.After(now) { // the clock was set back
		o.Since = now
		return h.kept.SetOffline(o)
	}
	if !o.Told { // PBS never heard of it
		return h.kept.SetOffline(nil)
	}
	known := slices.Collect(maps.Values(req.VnodeList))
	if !slices.ContainsFunc(known, tellsState) {
		return nil
	}
	if !h.policy.Vnodes.OnlineOfflinedNodes {
		if slices.ContainsFunc(known, isOffline) {
			return nil
		}
		return h.kept.SetOffline(nil) // the administrator has done it
	}
	if now.Sub(o.Since) < time.Duration(h.policy.Vnodes.OnlineMinDelay) {
		return nil
	}
	setState(out, slices.Sorted(maps.Keys(req.VnodeList)), stateFree)
	h.log.Info("the vnodes of this host go on line again: every cgroup is removed")
	return h.kept.SetOffline(nil)
}

// setState sets the state of vnodes, and leaves all else that an outcome says of them.
func setState(out *hostapi.Outcome, names []string, state string) {
	for _, name := range names {
		if out.Vnodes == nil {
			out.Vnodes = map[string]*hostapi.Vnode{}
		}
		if out.Vnodes[name] == nil {
			out.Vnodes[name] = &hostapi.Vnode{}
		}
		out.Vnodes[name].State = state
	}
}

// tellsState reports whether PBS's word on a vnode's state and comment is in v. If there is a
// state, no comment means that there is none: PBS leaves out what is not set.
func tellsState(v *hostapi.Vnode) bool { return v != nil && (v.State != "" || v.Comment != nil) }

// isOffline reports whether a vnode is offline, whoever has said so.
func isOffline(v *hostapi.Vnode) bool {
	return v != nil && slices.Contains(states(v.State), stateOffline)
}

// lostComment reports whether a vnode is offline without this hook's comment.
func lostComment(v *hostapi.Vnode) bool {
	return isOffline(v) && (v.Comment == nil || !strings.Contains(*v.Comment, offlineComment))
}

// states splits a state as pbsnodes spells it: words with commas between them.
func states(text string) []string {
	var words []string
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}
