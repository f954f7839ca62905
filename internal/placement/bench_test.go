package placement

import (
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs"
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
				NCPUs: bb.ncpus, Allowed: node.Online, Taken: kernfs.IDs(0, 1, 2, 9, 40, 77), UseHyperthreads: true, MemFences: true,
				Mem: 1 << 30, FreeMem: map[int]int64{0: 1 << 29, 1: 1 << 30},
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
