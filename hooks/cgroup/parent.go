package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/systemd"
)

// units is the node's systemd, as far as the parent of all jobs is concerned.
type units interface {
	Active(unit string) bool
	Ensure(ctx context.Context, unit string) error
	Realize(ctx context.Context, unit string) error
	SetMemoryLow(ctx context.Context, unit string, bytes uint64) error
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
	if err := h.settleParent(ctx); err != nil {
		return err
	}
	if err := h.favorMoves(); err != nil {
		h.log.Warnf("[cgroup] favordynmods = true: %v", err)
	}
	if err := h.protectServices(ctx); err != nil {
		h.log.Warnf("[memory] services_low is not in force: %v", err)
	}
	return nil
}

// favorMoves has the kernel move processes without a wait, where the configuration wants that. Jobs
// can do without it.
func (h *hook) favorMoves() error {
	if !h.policy.Cgroup.FavorDynmods {
		return nil
	}
	set, err := h.tree.FavorDynmods()
	if set {
		h.log.Info("the cgroup v2 mount has the option favordynmods from now on: " +
			"processes are moved without a wait, fork and exit take a little longer")
	}
	return err
}

// ensureParent makes the parents of all jobs if they have gone since the start. Else the tree is
// read once.
func (h *hook) ensureParent(ctx context.Context) error {
	if h.tree.Prepared() {
		return nil
	}
	return h.startParent(ctx)
}

// servicesMark is the extended attribute of system.slice that says which memory.low it has from
// here: without it nothing is taken back.
const servicesMark = "trusted.hookhost.services_low"

// protectServices sets memory.low of system.slice, which is systemd's to write: it would undo a
// write of ours. A value that an earlier configuration has set is lifted with it.
func (h *hook) protectServices(ctx context.Context) error {
	const slice = "system.slice"
	ours, _ := h.roots.Cgroup.Xattr(slice, servicesMark) // none where it was never set
	low := wholePages(int64(h.policy.Memory.ServicesLow))
	switch {
	case low == 0 && len(ours) == 0:
		return nil
	case h.units == nil:
		return errors.New("it needs systemd as the first process")
	case h.tree.Mode() != cgroup.ModeV2:
		return fmt.Errorf("it needs cgroup v2, here is %v", h.tree.Mode())
	}
	want, mark := fmt.Sprint(low), []byte(nil)
	b, err := h.roots.Cgroup.ReadFile(slice + "/memory.low")
	now := strings.TrimSpace(string(b))
	if low > 0 {
		mark = []byte(want)
	} else if now != string(ours) { // somebody else has set it since
		now = want
	}
	if err != nil || now != want {
		if err := h.units.SetMemoryLow(ctx, slice, uint64(low)); err != nil {
			return err
		}
	}
	if string(ours) == string(mark) {
		return nil
	}
	return h.roots.Cgroup.SetXattr(slice, servicesMark, mark)
}
