package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/topology"
)

// smtNode has so many cores of two threads, and 16 GiB.
func smtNode(cores int) *topology.Node {
	n := &topology.Node{Threads: 2, MemTotal: 16 << 30, NUMA: []topology.NUMANode{{HasMemory: true, MemTotal: 16 << 30}}}
	var cpus []int
	for i := range 2 * cores {
		n.CPUs = append(n.CPUs, topology.CPU{ID: i, Core: i % cores, Siblings: kernfs.IDs(i%cores, i%cores+cores)})
		cpus = append(cpus, i)
	}
	n.Online = kernfs.IDs(cpus...)
	n.NUMA[0].CPUs = n.Online
	return n
}

// Doctor says in numbers what is in a block, or why there is none.
func TestDoctorBlocks(t *testing.T) {
	for _, tt := range []struct {
		blocks, cores, gpus int
		exclude             string
		threads             bool
		status, found       string
	}{
		{2, 4, 8, "", false, statusOK, "2, each with 2 cpus, 8388608kb, 4 ngpus"},
		{2, 4, 0, "", true, statusOK, "2, each with 4 cpus, 8388608kb"},
		{4, 7, 4, "", false, statusOK, "4, each with 1 cpus, 4194304kb, 1 ngpus; 3 cores are in none"},
		{4, 7, 4, "0,7", true, statusOK, "4, each with 2 cpus, 4194304kb, 1 ngpus; 2 cores are in none"},
		{3, 4, 8, "", false, statusImpossible, "cut node into 3 blocks: its 8 devices (ngpus nvidia A100) cannot be divided by 3: jobs that ask for blocks get none"},
		{8, 4, 8, "", false, statusImpossible, "cut node into 8 blocks: it has 4 cores: jobs that ask for blocks get none"},
	} {
		t.Run(fmt.Sprintf("%d of %d cores and %d GPUs", tt.blocks, tt.cores, tt.gpus), func(t *testing.T) {
			cfg := config.Default()
			cfg.Devices.Blocks, cfg.Cpuset.ExcludeCPUs, cfg.Cpuset.UseHyperthreads, cfg.Memory.ReservePercent = tt.blocks, tt.exclude, tt.threads, 0
			inv := &inventory.Inventory{}
			for i := range tt.gpus {
				inv.Devices = append(inv.Devices, topology.Device{ID: fmt.Sprint("GPU-", i), Resource: "ngpus", Vendor: "nvidia", Model: "A100"})
			}
			node := smtNode(tt.cores)
			f := describeBlocks(cfg, node, node.Online, inv)
			if f.Status != tt.status || f.Found != tt.found || f.Blocks != (tt.status == statusImpossible) || f.Blocks && !strings.Contains(f.Advice, "blocks in [devices]") {
				t.Errorf("%+v\nwant %s: %s", f, tt.status, tt.found)
			}
		})
	}
}
