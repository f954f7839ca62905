package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/topology"
)

// inventoryKeeper keeps the node's inventory in memory and in the state directory, where hook
// cgroup and doctor read it. A scan may hang, so scans run in the background, one at a time. Events
// use the latest result when they occur.
type inventoryKeeper struct {
	dir       string // state directory; "" stores nothing
	scan      func(context.Context) *inventory.Inventory
	numbering func() ([]string, error) // the facts that determine the numbers in scan's result
	changed   func()                   // called when a scan found a change; may be nil
	log       *logrus.Entry

	mu      sync.Mutex
	inv     *inventory.Inventory // nil until the first scan
	busy    chan struct{}        // closed when the running scan ends; nil if none is running
	adopted bool                 // inv has the result of the running scan

	storing  sync.Mutex
	unstored error // error of the last attempt: the file is older than inv
}

// allowSource is the inventory's entry for rules that are left out of the base list and
// devices.allow.
const allowSource = "allow"

// lateSource is the inventory's entry for a scan that did not finish in time.
const lateSource = "scan"

// load reads the inventory of an earlier run, if it is readable and its numbers still belong to the
// same devices.
func (s *inventoryKeeper) load() {
	if s.dir == "" {
		return
	}
	inv, err := inventory.Load(s.dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.log.Warnf("scanning for devices again: %v", err)
		}
		return
	}
	if !s.numbered(inv) {
		s.log.Info("scanning for devices again: their numbers may have changed")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inv = inv
}

// numbered reports whether the inventory's numbers still belong to the same devices.
func (s *inventoryKeeper) numbered(inv *inventory.Inventory) bool {
	now, err := s.numbering()
	return err == nil && inv.Numbered(now)
}

// current returns the inventory, or nil if nothing is known. The caller must not change it.
func (s *inventoryKeeper) current() *inventory.Inventory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inv
}

// refresh scans in the background, and returns a channel that is closed when the scan ends. If a
// scan is already running, it returns the channel of that one.
func (s *inventoryKeeper) refresh(ctx context.Context, background *sync.WaitGroup) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy != nil {
		return s.busy
	}
	busy := make(chan struct{})
	s.busy, s.adopted = busy, false
	background.Go(func() {
		inv := s.scan(ctx)
		if ctx.Err() == nil { // otherwise the scan may have missed devices
			s.adopt(inv)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy = nil
		close(busy)
	})
	return busy
}

// scanning reports whether a scan is running.
func (s *inventoryKeeper) scanning() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy != nil
}

// adopt makes the result of a scan the inventory. It writes the file only if the result has
// changed, so a full disk does no harm as long as nothing changes.
func (s *inventoryKeeper) adopt(inv *inventory.Inventory) {
	if old := s.current(); old != nil && s.numbered(old) { // otherwise its numbers may belong to another driver now
		inv = succeed(old, inv)
	}
	s.mu.Lock()
	old := s.inv
	if old != nil {
		for _, name := range []string{allowSource, blocksSource} { // until they are decided again
			inv = withSource(inv, sourceOf(old, name))
		}
	}
	same := old != nil && equal(old, inv)
	s.inv, s.adopted = inv, true
	s.mu.Unlock()
	if same {
		return
	}
	for _, source := range inv.Sources {
		switch {
		case old != nil && source == sourceOf(old, source.Name): // already logged
		case source.Error != "":
			s.log.Warnf("devices: %s: not known: %s", source.Name, source.Error)
		case source.Note != "":
			s.log.Infof("devices: %s: %d found: %s", source.Name, source.Count, source.Note)
		case source.Count > 0:
			s.log.Infof("devices: %s: %d found", source.Name, source.Count)
		}
	}
	s.store()
	if s.changed != nil {
		s.changed()
	}
}

// late records that the current scan has no result within limit. Doctor shows that along with the
// previous inventory.
func (s *inventoryKeeper) late(limit time.Duration) {
	s.mu.Lock()
	if s.busy == nil || s.adopted { // the result has just come
		s.mu.Unlock()
		return
	}
	inv := s.inv
	if inv == nil {
		inv = &inventory.Inventory{Devices: []topology.Device{}}
	}
	problem := fmt.Sprintf("no result within %v; the scan continues", limit)
	s.inv = withSource(inv, inventory.Source{Name: lateSource, Error: problem})
	s.mu.Unlock()
	s.log.Warnf("devices: not known: %s", problem)
	s.store()
}

// note sets a note in the inventory, in addition to those of the sources. An empty text removes the
// note. If the note is unchanged, it does nothing.
func (s *inventoryKeeper) note(name, text string) {
	s.mu.Lock()
	if s.inv == nil || sourceOf(s.inv, name).Note == text {
		s.mu.Unlock()
		return
	}
	s.inv = withSource(s.inv, inventory.Source{Name: name, Note: text})
	s.mu.Unlock()
	s.store()
}

// equal reports whether two inventories have the same contents when written to a file.
func equal(a, b *inventory.Inventory) bool {
	text := func(inv *inventory.Inventory) []byte {
		sorted := *inv
		sorted.Sources = slices.SortedFunc(slices.Values(inv.Sources), func(a, b inventory.Source) int {
			return strings.Compare(a.Name, b.Name)
		})
		sorted.Numbering = slices.Sorted(slices.Values(inv.Numbering))
		text, err := json.Marshal(sorted)
		if err != nil {
			return nil
		}
		return text
	}
	return bytes.Equal(text(a), text(b))
}

// withSource returns inv with the source of the same name replaced. A source without a note or an
// error is removed.
func withSource(inv *inventory.Inventory, source inventory.Source) *inventory.Inventory {
	changed := *inv
	changed.Sources = slices.DeleteFunc(slices.Clone(inv.Sources),
		func(o inventory.Source) bool { return o.Name == source.Name })
	if source.Note != "" || source.Error != "" {
		changed.Sources = append(changed.Sources, source)
	}
	return &changed
}

// sourceOf returns the source of that name, or an empty one.
func sourceOf(inv *inventory.Inventory, name string) inventory.Source {
	for _, s := range inv.Sources {
		if s.Name == name {
			return s
		}
	}
	return inventory.Source{}
}

// store writes the inventory for others to read. If several calls overlap, the last one writes the
// latest inventory.
func (s *inventoryKeeper) store() {
	if s.dir == "" {
		return
	}
	s.storing.Lock()
	defer s.storing.Unlock()
	if s.unstored = s.current().Store(s.dir); s.unstored != nil {
		s.log.Errorf("hook cgroup cannot read the inventory: %v", s.unstored)
	}
}

// rewrite writes the file again if the last write failed, or if the file has since been lost or
// damaged. It returns the error if that fails too.
func (s *inventoryKeeper) rewrite() error {
	inv := s.current()
	if s.dir == "" || inv == nil {
		return nil
	}
	s.storing.Lock()
	defer s.storing.Unlock()
	if _, err := inventory.Load(s.dir); err != nil || s.unstored != nil {
		s.unstored = inv.Store(s.dir)
	}
	if s.unstored != nil {
		return hostapi.Errorf(hostapi.KindNode, "hook cgroup cannot read the inventory: %w", s.unstored)
	}
	return nil
}

func failed(inv *inventory.Inventory) bool {
	return slices.ContainsFunc(inv.Sources, func(s inventory.Source) bool { return s.Error != "" })
}

// succeed returns inv with the devices that old has from sources that failed this time. They are
// most likely still there, and jobs may hold them.
func succeed(old, inv *inventory.Inventory) *inventory.Inventory {
	if old == nil {
		return inv
	}
	merged := *inv
	merged.Devices, merged.Shared = slices.Clone(inv.Devices), maps.Clone(inv.Shared)
	keepShared := func(vendor string) {
		if nodes := old.Shared[vendor]; len(nodes) > 0 {
			if merged.Shared == nil {
				merged.Shared = map[string][]topology.DeviceNode{}
			}
			merged.Shared[vendor] = nodes
		}
	}
	listed := sourceOf(inv, "nvml").Error != "" && (sourceOf(inv, "nvidia").Count > 0 || len(inv.MIG) > 0)
	if listed {
		merged.Devices = described(old.Devices, inv)
		merged.Numbering = unique(slices.Concat(inv.Numbering, old.Numbering))
		if sourceOf(inv, "nvidia").Count == 0 { // all GPUs are in MIG mode
			keepShared("nvidia")
		}
	}
	for _, s := range inv.Sources {
		vendor, known := inventory.VendorOf(s.Name)
		of := func(d topology.Device) bool { return d.Vendor == vendor }
		if s.Error == "" || !known || listed && vendor == "nvidia" || slices.ContainsFunc(merged.Devices, of) {
			continue
		}
		for _, d := range old.Devices {
			if of(d) {
				merged.Devices = append(merged.Devices, d)
				merged.Numbering = unique(slices.Concat(inv.Numbering, old.Numbering))
			}
		}
		keepShared(vendor)
	}
	return &merged
}

// described returns inv's devices with what NVML reported about NVIDIA's before. If NVML fails, the
// driver's files still show which GPUs there are, but neither their memory nor the UUIDs of MIG
// instances. A GPU with instances is not among the devices then. Those instances of old that the
// files show too are kept for it. All nodes are inv's, since a driver that was reloaded may have
// numbered its GPUs differently.
func described(old []topology.Device, inv *inventory.Inventory) []topology.Device {
	var list []topology.Device
	for _, d := range old {
		if d.Vendor != "nvidia" || d.PCI == "" {
			continue
		}
		if d.Parent != "" {
			if nodes := inv.MIG[d.PCI][d.Instance]; len(nodes) > 0 {
				d.Nodes = nodes
				list = append(list, d)
			}
			continue
		}
		gpu := slices.IndexFunc(inv.Devices, func(n topology.Device) bool {
			return n.Vendor == "nvidia" && n.PCI == d.PCI && (n.UUID == "" || n.UUID == d.UUID) // else another GPU
		})
		if gpu >= 0 {
			d.Nodes, d.NUMA = inv.Devices[gpu].Nodes, inv.Devices[gpu].NUMA
			list = append(list, d)
		}
	}
	for _, d := range inv.Devices {
		same := func(o topology.Device) bool { return o.Vendor == d.Vendor && o.Parent == "" && o.PCI == d.PCI }
		if d.Vendor != "nvidia" || d.PCI == "" || !slices.ContainsFunc(list, same) {
			list = append(list, d)
		}
	}
	return list
}

// vendors returns how many devices of each vendor the node has.
func vendors(inv *inventory.Inventory) map[string]int {
	there := map[string]int{}
	if inv != nil {
		for _, d := range inv.Devices {
			there[d.Vendor]++
		}
	}
	return there
}
