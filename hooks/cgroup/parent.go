package main

import (
	"context"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/systemd"
)

// units is the part of systemd that manages the parent of all jobs.
type units interface {
	Active(unit string) bool
	Ensure(ctx context.Context, unit string) error
	Realize(ctx context.Context, unit string) error
}

// options returns where the configuration places the jobs' cgroups, and who creates their parent.
func (p *policy) options(s *systemd.System) (cgroup.Options, error) {
	opt := cgroup.Options{Prefix: p.Cgroup.Prefix, Mount: p.Cgroup.Mount, Enable: p.Cgroup.EnableControllers,
		Controllers: p.Placing()}
	var err error
	if opt.Delegated, err = s.Wanted(p.Cgroup.Systemd); err != nil {
		return opt, err
	}
	if !s.Running() { // nothing else sets up the root of the v2 tree
		opt.EnableIfThere = p.Controllers()
	}
	return opt, nil
}

// unit returns systemd's name for the parent of all jobs.
func (p *policy) unit() string { return p.Cgroup.Prefix + ".service" }

// startParent creates the parent of all jobs. If hookhost has jobs here, it also sets the limits of
// all jobs, which protect the node's services. It asks systemd even if the unit looks right, since
// somebody may have removed one of its properties.
func (h *hook) startParent(ctx context.Context) error {
	if h.units != nil {
		err := h.units.Ensure(ctx, h.policy.unit())
		if err != nil && h.units.Active(h.policy.unit()) && !h.tree.Prepared() {
			// The unit's process has died, and the cgroup is gone.
			if realized := h.units.Realize(ctx, h.policy.unit()); realized == nil {
				err = h.units.Ensure(ctx, h.policy.unit())
			}
		}
		switch {
		case err != nil && h.units.Active(h.policy.unit()) && h.tree.Prepared():
			h.log.Warnf("the jobs' unit could not be checked: %v", err) // for example during a daemon-reload of systemd
		case err != nil:
			return hostapi.Errorf(hostapi.KindNode, "%w", err)
		}
	}
	if err := h.tree.Prepare(); err != nil {
		return hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	if err := h.policy.need(h.tree); err != nil {
		return err
	}
	return h.settleParent(ctx)
}

// ensureParent recreates the parent of all jobs if it has disappeared since the start.
func (h *hook) ensureParent(ctx context.Context) error {
	if h.tree.Prepared() {
		return nil
	}
	return h.startParent(ctx)
}
