package main

import (
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/placement"
)

// blocksSource is the inventory's entry that reports a host that cannot be divided into the
// configured blocks.
const blocksSource = "blocks"

// countBlocks returns the number of blocks to report to PBS. That is the configured number, or 0 if
// the host cannot be divided into that many equal parts. In the latter case countBlocks logs the
// problem once, and doctor shows it. The result is nil as long as the devices are not known.
func (h *hook) countBlocks(inv *inventory.Inventory) *int {
	n := h.policy.Devices.Blocks
	if n == 0 {
		h.keeper.note(blocksSource, "")
		return nil
	}
	if inv == nil || len(inv.Devices) == 0 && (len(inv.Sources) == 0 || failed(inv)) {
		return nil
	}
	cpus, err := h.tree.CPUsAbove()
	if err != nil { // no cpusets here
		cpus = h.node.Online
	}
	err = h.cut(cpus.Intersect(h.node.Online), inv)
	text := ""
	if err != nil {
		n, text = 0, "jobs get no blocks: "+err.Error()
		if sourceOf(inv, blocksSource).Note != text {
			h.log.Warnf("devices.blocks: %s", text)
		}
	}
	h.keeper.note(blocksSource, text)
	return &n
}

// cut divides the host into blocks as hook cgroup does.
func (h *hook) cut(cpus kernfs.IDSet, inv *inventory.Inventory) error {
	p := h.policy
	req := placement.Request{Allowed: p.Cpuset.Left(cpus), UseHyperthreads: p.Cpuset.UseHyperthreads,
		MemFences: p.Cpuset.MemFences, Devices: inv.Devices}
	_, err := placement.Blocks(h.node, req, p.Devices.Blocks)
	return err
}
