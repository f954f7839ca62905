package placement

import (
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

func BenchmarkPlace(b *testing.B) {
	for _, bb := range []struct {
		name  string
		shape shape
		ncpus int
	}{
		{"256 threads, one cpu", shape{2, 1, 64, 2, 0}, 1},
		{"256 threads, a socket", shape{2, 1, 64, 2, 0}, 128},
		{"16 NUMA nodes, one cpu", shape{2, 8, 8, 2, 0}, 1},
		{"16 NUMA nodes, five of them", shape{2, 8, 8, 2, 0}, 77},
	} {
		b.Run(bb.name, func(b *testing.B) {
			node := bb.shape.build()
			req := Request{
				NCPUs: bb.ncpus, Allowed: node.Online, Taken: kernfs.IDs(0, 1, 2, 9, 40, 77), UseHyperthreads: true,
				MemFences: true,
				Mem:       1 << 30, FreeMem: map[int]int64{0: 1 << 29, 1: 1 << 30},
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Place(node, req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPlaceDevices(b *testing.B) {
	for _, bb := range []struct {
		name     string
		n, nodes int // GPUs, NUMA nodes that they are next to
		parts    int // instances of each
		count    int
	}{
		{"1 of 8", 8, 2, 1, 1},
		{"4 of 8", 8, 2, 1, 4},
		{"8 of 16", 16, 8, 1, 8},
		{"8 of 32", 32, 8, 1, 8},
		{"250 of 256", 256, 8, 1, 250},
		{"128 of 256", 256, 8, 1, 128},
		{"2 of 256", 256, 8, 1, 2},
		{"1 of 56 instances", 8, 2, 7, 1},
		{"14 of 56 instances", 8, 2, 7, 14},
		{"56 of 112 instances", 16, 2, 7, 56},
		{"2 of 4000", 4000, 8, 1, 2},
		{"2000 of 4000", 4000, 8, 1, 2000},
	} {
		b.Run(bb.name, func(b *testing.B) {
			node := shape{2, 4, 16, 2, 0}.build()
			var numa, all []int
			for i := range bb.n * bb.parts {
				numa, all = append(numa, i/bb.parts*bb.nodes/bb.n), append(all, i)
			}
			devices := gpus(numa...)
			if bb.parts == 1 && bb.n <= 256 {
				linked(devices, 12, all)
			}
			for i := range devices {
				if bb.parts > 1 {
					devices[i].Parent = devices[i/bb.parts*bb.parts].ID
				}
			}
			req := Request{NCPUs: 8, Allowed: node.Online, UseHyperthreads: true, Wants: anyGPU(bb.count),
				Devices: devices}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Place(node, req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Two kinds of devices that some of a host's can be both of: what the first gets must leave enough
// for the second.
func BenchmarkPlaceRivals(b *testing.B) {
	node := shape{2, 4, 16, 2, 0}.build()
	var numa, all []int
	for i := range 256 {
		numa, all = append(numa, i/32), append(all, i)
	}
	devices := linked(gpus(numa...), 12, all)
	for i := range devices {
		if i%2 == 0 {
			devices[i].Model = "Other"
		}
	}
	req := Request{NCPUs: 8, Allowed: node.Online, UseHyperthreads: true, Devices: devices,
		Wants: []Want{{Resource: "ngpus", Count: 124, Models: []string{"Other"}}, {Resource: "ngpus", Count: 126}}}
	for b.Loop() {
		if _, err := Place(node, req); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChooseBlocks(b *testing.B) {
	node := shape{2, 4, 8, 1, 0}.build()
	blocks, err := Blocks(node, Request{Allowed: node.Online}, 16)
	must.NoError(b, err)
	for b.Loop() {
		if _, err := ChooseBlocks(blocks, nil, nil, 8); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBlocks(b *testing.B) {
	node := shape{2, 4, 16, 2, 0}.build()
	devices := linked(gpus(0, 0, 2, 2, 4, 4, 6, 6), 12, list(8))
	for b.Loop() {
		if _, err := Blocks(node, Request{Allowed: node.Online, UseHyperthreads: true, Devices: devices},
			8); err != nil {
			b.Fatal(err)
		}
	}
}
