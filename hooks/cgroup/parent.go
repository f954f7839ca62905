package main

import (
	"context"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/systemd"
)

// units is the node's systemd, as far as the parent of all jobs is concerned.
type units interface {
	Active(unit string) bool
	Ensure(ctx context.Context, unit string) error
	Realize(ctx context.Context, unit string) error
}

// options say where the configuration has the jobs' cgroups and who makes their parent.
func (p *policy) options(s *systemd.System) (cgroup.Options, error) {
	opt := cgroup.Options{Prefix: p.Cgroup.Prefix, Mount: p.Cgroup.Mount, Enable: p.Cgroup.EnableControllers,
		Controllers: p.Placing()}
	var err error
	if opt.Delegated, err = s.Wanted(p.Cgroup.Systemd); err != nil {
		return opt, err
	}
	if !s.Running() { // nobody else sets up the root of the v2 tree
		opt.EnableIfThere = p.Controllers()
	}
	return opt, nil
}

// unit is the parent of all jobs as systemd calls it.
func (p *policy) unit() string { return p.Cgroup.Prefix + ".service" }

// startParent makes the parents of all jobs with their limits, and protects the node's services
// from them. Systemd is asked even when the unit looks as it should: somebody may have taken a
// property from it.
func (h *hook) startParent(ctx context.Context) error {
	if h.units != nil {
		err := h.units.Ensure(ctx, h.policy.unit())
		if err != nil && h.units.Active(h.policy.unit()) && !h.tree.Prepared() {
			// The unit's keeper is dead, and the cgroup gone.
			if realized := h.units.Realize(ctx, h.policy.unit()); realized == nil {
				err = h.units.Ensure(ctx, h.policy.unit())
			}
		}
		switch {
		case err != nil && h.units.Active(h.policy.unit()) && h.tree.Prepared():
			h.log.Warnf("the jobs' unit could not be checked: %v", err) // as while a daemon-reload keeps systemd busy
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

// ensureParent makes the parents of all jobs if they have gone since the start. Else the tree is
// read once.
func (h *hook) ensureParent(ctx context.Context) error {
	if h.tree.Prepared() {
		return nil
	}
	return h.startParent(ctx)
}
