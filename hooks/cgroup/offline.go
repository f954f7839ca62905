package main

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/pbs"
)

// If a job's cgroup cannot be removed within kill_timeout, it still holds cpus and memory that PBS
// is about to give to the next job. So all vnodes of the host go offline, and come back when
// everything has been removed (openpbs pbs_cgroups.PY, take_node_offline and bring_node_online).
// The hook sets the state without a comment. The rest is internal/openpbs's: the comment, which
// names the cause, and the note that survives restarts.

const (
	stateOffline = "offline"
	stateFree    = "free"
)

// cannotRemove reports whether an error of kill or remove means that part of a job cannot be
// removed.
func cannotRemove(err error) bool {
	return errors.Is(err, cgroup.ErrNotEmpty) || errors.Is(err, cgroup.ErrBusy)
}

// stuck asks PBS to take the host's vnodes offline if err says that part of a job remains. An event
// that hookhost's timer sent does not reach PBS, so the next exechost_periodic asks again.
func (h *hook) stuck(req *hostapi.Request, out *hostapi.Outcome, err error) {
	if out == nil || !cannotRemove(err) {
		return
	}
	if !h.offline.Swap(true) {
		h.log.Error("the vnodes of this host go offline: a cgroup could not be removed")
	}
	setState(out, h.policy.vnodesOfHost(h.node(), req.Node, req.VnodeList), stateOffline)
}

// recovered asks PBS to put vnodes back online that stuck took offline, because nothing remains.
// After a restart of the hook, their comment says so.
func (h *hook) recovered(req *hostapi.Request, out *hostapi.Outcome) {
	known, ours := false, h.offline.Swap(false)
	for _, v := range req.VnodeList {
		known = known || v != nil && v.State != ""
		ours = ours || v != nil && v.Comment != nil && strings.Contains(*v.Comment, pbs.CleanUpComment)
	}
	if known && ours {
		setState(out, slices.Sorted(maps.Keys(req.VnodeList)), stateFree)
	}
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
