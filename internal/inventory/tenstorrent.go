package inventory

import (
	"context"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/internal/topology"
)

const tenstorrentVendor = 0x1e52

// tenstorrentChips has the names of the chips that tt-kmd drives (enumerate.h), by PCI device ID.
var tenstorrentChips = map[uint16]string{0x401e: "Wormhole", 0xb140: "Blackhole"}

// tenstorrentMemory has the memory of one device in GiB, by the name that tt-kmd gives to its card
// (tt_sysfs_show_card_type of telemetry.c). sysfs does not show it. A Wormhole has six banks of 2
// GiB. A Blackhole has eight of 4 GiB, of which a p100 lacks one. (tt-umd: the files
// *_implementation.hpp, cluster_descriptor_types.hpp)
//
// Only one of the two chips of an n300 is on the PCI bus, so both belong to one device. On other
// cards each chip is a device.
var tenstorrentMemory = map[string]int64{
	"n150": 12, "n300": 24, "galaxy-wormhole": 12,
	"p100": 28, "p100a": 28, "p150a": 32, "p150b": 32, "p150c": 32, "p300a": 32, "p300b": 32, "p300c": 32,
	"galaxy-blackhole": 32,
}

// tenstorrent finds Tenstorrent's accelerators: the PCI devices of tt-kmd, whose nodes are
// /dev/tenstorrent/N. Index is N, which may belong to another device after a reset (tt-umd,
// docs/TT_VISIBLE_DEVICES.md).
func (s *scan) tenstorrent(context.Context) found {
	sys := s.roots.Sys
	all, err := pciDevices(sys)
	if err != nil {
		return found{sources: []Source{{Name: "tenstorrent", Error: err.Error()}}}
	}
	var f found
	var failed, notes problems
	var boards []string // serial numbers of the devices' boards, as far as they are known
	for _, pci := range all {
		if pci.vendor != tenstorrentVendor {
			continue
		}
		dir := pciDir + "/" + pci.address + "/tenstorrent"
		list, err := numbered(sys, dir, "tenstorrent!")
		if err != nil {
			failed.add("%v", err)
			continue
		}
		if len(list) == 0 {
			notes.add("%s (%s) has no device node, which needs the driver tenstorrent", pci.address, pci.id())
			continue
		}
		dir += "/" + list[0]
		number := strings.TrimPrefix(list[0], "tenstorrent!")
		node, err := sysNode(sys, dir, "/dev/tenstorrent/"+number)
		if err != nil {
			failed.add("%s: %v", pci.address, err)
			continue
		}
		// Firmware that does not answer has no card, and neither has a device after a failed reset.
		card := text(sys, dir+"/tt_card_type")
		memory, known := tenstorrentMemory[card]
		if !known {
			card = pci.id()
		}
		boards = append(boards, text(sys, dir+"/tt_serial"))
		index, _ := strconv.Atoi(number)
		f.devices = append(f.devices, topology.Device{
			Resource: ngpus, Vendor: "tenstorrent",
			Model: strings.Join(strings.Fields("Tenstorrent "+tenstorrentChips[pci.device]+" "+card), " "),
			PCI:   pci.address, Index: index, NUMA: numaOf(sys, pciDir+"/"+pci.address),
			Nodes: []topology.DeviceNode{node}, Memory: memory << 30,
		})
	}
	identify(f.devices)
	for i, board := range boards {
		for j, other := range boards {
			if i != j && board == other && board != "" { // chips of a board are connected by Ethernet
				link(f.devices, i, j, 1)
			}
		}
	}
	f.sources = []Source{{Name: "tenstorrent", Count: len(f.devices), Note: notes.String(), Error: failed.String()}}
	return f
}
