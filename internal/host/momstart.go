package host

import (
	"context"
	"sync"

	"github.com/hookhost/hookhost/hostapi"
)

// A pbs_mom runs exechost_startup only when it starts and on SIGHUP. If a running MoM gets the
// hook, its first event of the host is exechost_periodic. Then the server would never get this
// host's resources.
//
// MoM itself knows the server's data. Once the server has confirmed a hook's report about vnodes,
// MoM includes it in the vnode_list of its events (openpbs src/resmom/mom_server.c,
// IS_HOOK_ACTION_ACK). The server does not care which event brought the report
// (src/server/node_manager.c, IS_UPDATE_FROM_HOOK).

// startUpLate adds resources and sharing, which exechost_startup would have reported, to the
// verdict of an exechost_periodic of a pbs_mom. It does so if the event's vnode_list lacks such a
// resource. Each MoM is checked once, unless its exechost_startup has come. Later changes at the
// server come from the administrator.
func (h *Host) startUpLate(ctx context.Context, e *event, v *Verdict) {
	req, home := e.req, e.from.home
	if !e.from.pbs || h.started.has(home) {
		return
	}
	if req.Event == hostapi.EventStartup {
		if !v.Reject {
			h.started.add(home)
		}
		return
	}
	startup := h.askAll(ctx, h.links(),
		&hostapi.Request{Event: hostapi.EventStartup, Node: req.Node, VnodeList: req.VnodeList}, caller{})
	if startup.Reject {
		h.log.Debug("exechost_startup in the place of pbs_mom's: not carried out") // the next periodic tries again
		return
	}
	h.started.add(home)
	if !lacks(req.VnodeList, startup.Vnodes) {
		return
	}
	h.log.Warn("pbs_mom has not run exechost_startup since it has the hook: the server is told of the vnodes by " +
		"this exechost_periodic")
	for name, told := range startup.Vnodes {
		into := v.Vnodes[name]
		if into == nil {
			into = &hostapi.Vnode{}
			put(&v.Vnodes, name, into)
		}
		for r, value := range told.ResourcesAvailable {
			if _, set := into.ResourcesAvailable[r]; !set {
				put(&into.ResourcesAvailable, r, value)
			}
		}
		if into.Sharing == "" {
			into.Sharing = told.Sharing
		}
	}
}

// lacks reports whether a resource in told is missing in known.
func lacks(known, told map[string]*hostapi.Vnode) bool {
	for name, v := range told {
		for r := range v.ResourcesAvailable {
			there := known[name]
			if there == nil {
				return true
			}
			if _, has := there.ResourcesAvailable[r]; !has {
				return true
			}
		}
	}
	return false
}

// startedMoMs holds the homes of those pbs_moms whose exechost_startup has come or was replaced.
// The zero value is empty.
type startedMoMs struct {
	mu    sync.Mutex
	homes map[string]bool
}

func (s *startedMoMs) has(home string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.homes[home]
}

func (s *startedMoMs) add(home string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	put(&s.homes, home, true)
}
