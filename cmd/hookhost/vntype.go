package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/nodestate"
)

// learn keeps the vntype that an exechost event brings. The configuration's conditions may depend on it, so a new one has
// them resolved again, and the hooks told, before the event reaches them.
//
// Only the daemon keeps it, from events about the node: those come from pbs_mom, that is root (see api.Listen), while a job's
// event may be one that somebody tries with a file.
func (b *backend) learn(ctx context.Context, req *hostapi.Request) error {
	if !b.daemon || req.Event.ForJob() {
		return nil
	}
	natural := req.VnodeList[cmp.Or(req.Node, b.node)]
	if natural == nil || natural.ResourcesAvailable["vntype"] == "" {
		return nil
	}
	b.learning.Lock()
	defer b.learning.Unlock()
	state, vntype := nodestate.Dir(b.cli.state), natural.ResourcesAvailable["vntype"]
	known, err := state.Vntype()
	if err == nil && known == vntype {
		return nil
	}
	if err := state.SetVntype(vntype); err != nil {
		return fmt.Errorf("keep vntype: %w", err)
	}
	b.log.WithField("vntype", vntype).Info("PBS told the vntype of this node")
	if err := b.resolve(ctx); err != nil {
		return fmt.Errorf("resolve configuration for vntype %s: %w", vntype, err)
	}
	return nil
}
