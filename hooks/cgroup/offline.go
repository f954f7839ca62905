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

// If a job's cgroup cannot be removed within kill_timeout, it still holds cpus and memory that PBS
// is about to give to the next job. So all vnodes of the host go offline, with a comment that says
// why. They come back online when everything has been removed (openpbs pbs_cgroups.PY,
// take_node_offline and bring_node_online). A note in the state directory records that this hook
// took them offline. It survives restarts of the hook, the host and the machine.
//
// The hook sets the state without a comment. The shim adds and removes the comment, and respects
// vnodes that an administrator took offline (internal/openpbs, offline and online). While there is
// a note, exechost_periodic has in its vnode_list what PBS knows about state and comment. A
// restarted server has lost the comment and gets it again.

const (
	// offlineComment is the comment on such vnodes. PBS's own hook recognizes its vnodes by this
	// comment.
	offlineComment = pbs.CleanUpComment

	stateOffline = "offline"
	stateFree    = "free"
)

// cannotRemove reports whether an error of kill or remove means that part of a job cannot be
// removed.
func cannotRemove(err error) bool {
	return errors.Is(err, cgroup.ErrNotEmpty) || errors.Is(err, cgroup.ErrBusy)
}

// stuck asks PBS to take the host's vnodes offline if err says that part of a job remains. If the
// event has no vnode_list, as when hookhost's timer sent it, the answer does not reach PBS. So the
// next event with a list gets the same answer once more. If a vnode is online after that, an
// administrator put it online, and it stays so.
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
	names := h.policy.vnodesOfHost(h.node(), req.Node, req.VnodeList)
	switch {
	case o == nil:
		o = &nodestate.Offline{Since: time.Now()}
		h.log.Error("the vnodes of this host go offline: a cgroup could not be removed")
	case o.Sent: // a job's event lists only the vnodes of that job
		names = slices.DeleteFunc(names, func(name string) bool {
			return !lostComment(req.VnodeList[name]) && (o.Vnodes == nil || slices.Contains(o.Vnodes, name))
		})
	}
	if len(req.VnodeList) > 0 {
		o.Sent = true
		o.Vnodes = slices.Compact(slices.Sorted(slices.Values(append(o.Vnodes, names...))))
	}
	setState(out, names, stateOffline)
	return h.kept.SetOffline(o)
}

// recovered asks PBS to put the vnodes that this hook took offline back online. It does so once
// nothing remains and online_min_delay has passed.
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
	if !o.Sent { // it never reached PBS
		return h.kept.SetOffline(nil)
	}
	known := slices.Collect(maps.Values(req.VnodeList))
	if !slices.ContainsFunc(known, hasState) {
		return nil
	}
	if !h.policy.Vnodes.OnlineOfflinedNodes {
		if slices.ContainsFunc(known, isOffline) {
			return nil
		}
		return h.kept.SetOffline(nil) // an administrator put them online
	}
	if now.Sub(o.Since) < time.Duration(h.policy.Vnodes.OnlineMinDelay) {
		return nil
	}
	setState(out, slices.Sorted(maps.Keys(req.VnodeList)), stateFree)
	h.log.Info("the vnodes of this host go back online: all cgroups are removed")
	return h.kept.SetOffline(nil)
}

// setState sets the state of vnodes and leaves the rest of the outcome unchanged.
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

// hasState reports whether v has PBS's state and comment. If there is a state, a missing comment
// means that none is set, because PBS leaves out unset attributes.
func hasState(v *hostapi.Vnode) bool { return v != nil && (v.State != "" || v.Comment != nil) }

// isOffline reports whether a vnode is offline, whether or not this hook did it. A state has the
// format of pbsnodes: words separated by commas.
func isOffline(v *hostapi.Vnode) bool {
	return v != nil && slices.ContainsFunc(strings.Split(v.State, ","),
		func(word string) bool { return strings.TrimSpace(word) == stateOffline })
}

// lostComment reports whether a vnode is offline without this hook's comment.
func lostComment(v *hostapi.Vnode) bool {
	return isOffline(v) && (v.Comment == nil || !strings.Contains(*v.Comment, offlineComment))
}
