package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/topology"
)

// Each device has a row of its own, which says what and where it is.
func TestEachDeviceHasARow(t *testing.T) {
	gpu := func(pci, uuid, model string, memory int64, numa int) topology.Device {
		return topology.Device{ID: cmp.Or(uuid, pci), Resource: "ngpus",
			Model: model, Memory: memory, UUID: uuid, PCI: pci, NUMA: numa}
	}
	inv := &inventory.Inventory{Devices: []topology.Device{
		gpu("0000:07:00.0", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "NVIDIA A100-SXM4-40GB", 40<<30, 1),
		gpu("0000:0f:00.0", "MIG-1c9f5d3a-11b2-5d0e-8f5e-2f5d0a5b7c11", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 5<<30, 11),
		gpu("0000:0f:00.0", "MIG-GPU-8932f937/3/0", "", 0, -1),
		gpu("0000:43:00.0", "", "AMD Instinct MI210", 0, 0),
		{ID: "/dev/fpga0", Resource: "fpga", NUMA: -1},
		{ID: "/dev/board-of-the-lab/fpga1", Resource: "fpga", Model: "U280", NUMA: -1},
	}, Sources: []inventory.Source{{Name: "nvml", Error: "it is broken"}, {Name: "amd"}}}
	n := nodeWith(t, config.Default())
	n.State = t.TempDir()
	must.NoError(t, inv.Store(n.State))
	var got []string
	for _, f := range n.examineInventory(nil) {
		got = append(got, fmt.Sprintf("%s: %s: %s", f.Status, f.What, f.Found))
	}
	want := []string{
		"ok: devices: ngpus=4, fpga=2",
		"ok: ngpus 0000:07:00.0: NVIDIA A100-SXM4-40GB 40 GiB NUMA node 1 GPU-8932f937",
		"ok: ngpus 0000:0f:00.0: NVIDIA A100-SXM4-40GB MIG 1g.5gb 5 GiB NUMA node 11 MIG-1c9f5d3a",
		"ok: ngpus 0000:0f:00.0: MIG-GPU-8932f937/3/0",
		"ok: ngpus 0000:43:00.0: AMD Instinct MI210 NUMA node 0",
		"ok: fpga /dev/fpga0: a device that is configured",
		"ok: fpga /dev/board-of-the-lab/fpga1: U280",
		"degraded: devices: nvml: it is broken",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A finding about the device filter says what would mend it. A user who is refused has learned
// nothing about the daemon.
func TestDeviceFilterThatCannotBeLoadedBlocks(t *testing.T) {
	refused := func() error { return errors.New("operation not permitted: it takes CAP_SYS_ADMIN") }
	taken := func() error { return nil }
	for _, tt := range []struct {
		name    string
		boot    func(...kernfstest.Option) *kernfstest.Kernel
		uid     int
		enabled bool
		probe   func() error
		status  Status
	}{
		{"v2", kernfstest.NewV2, 0, true, taken, OK},
		{"v2, refused", kernfstest.NewV2, 0, true, refused, Impossible},
		{"hybrid, refused", kernfstest.NewHybrid, 0, true, refused, Impossible},
		{"v1, which asks for no program", kernfstest.NewV1, 0, true, refused, OK},
		{"refused, and not wanted", kernfstest.NewV2, 0, false, refused, OK},
		{"v2, refused to a user", kernfstest.NewV2, 65534, true, refused, Unknown},
		{"v1, to a user", kernfstest.NewV1, 65534, true, refused, OK},
	} {
		cfg := config.Default()
		cfg.Devices.Enabled = tt.enabled
		f := openFake(t, tt.boot().Roots(), cfg).examineDeviceFilter(rights{uid: tt.uid}, tt.probe)
		wrong := tt.status == Impossible
		advised := strings.Contains(f.Found+f.Advice, "CAP_SYS_ADMIN")
		if f.Status != tt.status || f.Blocks != wrong || advised != wrong {
			t.Errorf("%s: %+v, want %s", tt.name, f, tt.status)
		}
	}
}

func TestDeviceDirectoryThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		cdi, dcgm string
		want      []string
	}{
		{"", "", nil},
		{dir + "/made/later", dir, nil},
		{"/etc/passwd/cdi", "", []string{"cdi_dir"}},
		{"/etc/passwd", dir + "/none", []string{"cdi_dir", "dcgm_job_mapping_dir"}},
	} {
		cfg := config.Default()
		cfg.Devices.CDIDir, cfg.Devices.DCGMDir = tt.cdi, tt.dcgm
		var got []string
		for _, f := range examineDeviceDirs(cfg) {
			got = append(got, f.What)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q, %q: %v, want %v", tt.cdi, tt.dcgm, got, tt.want)
		}
	}
}

// smtNode has so many cores of two threads, and 16 GiB.
func smtNode(cores int) *topology.Node {
	n := &topology.Node{Threads: 2, MemTotal: 16 << 30,
		NUMA: []topology.NUMANode{{HasMemory: true, MemTotal: 16 << 30}}}
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
func TestBlocksAreDescribedInNumbers(t *testing.T) {
	for _, tt := range []struct {
		blocks, cores, gpus int
		exclude             string
		threads             bool
		status              Status
		found               string
	}{
		{2, 4, 8, "", false, OK, "2, each with ncpus=2, mem=8388608kb, ngpus=4"},
		{2, 4, 0, "", true, OK, "2, each with ncpus=4, mem=8388608kb"},
		{4, 7, 4, "", false, OK, "4, each with ncpus=1, mem=4194304kb, ngpus=1; cores in none: 3"},
		{4, 7, 4, "0,7", true, OK, "4, each with ncpus=2, mem=4194304kb, ngpus=1; cores in none: 2"},
		{3, 4, 8, "", false, Impossible,
			"cut node into 3 blocks: its 8 devices (ngpus nvidia A100) cannot be divided by 3: jobs that ask for " +
				"blocks get none"},
		{8, 4, 8, "", false, Impossible, "cut node into 8 blocks: it has 4 cores: jobs that ask for blocks get none"},
	} {
		t.Run(fmt.Sprintf("%d of %d cores and %d GPUs", tt.blocks, tt.cores, tt.gpus), func(t *testing.T) {
			cfg := config.Default()
			cfg.Devices.Blocks, cfg.Memory.ReservePercent = tt.blocks, 0
			cfg.Cpuset.ExcludeCPUs, cfg.Cpuset.UseHyperthreads = tt.exclude, tt.threads
			inv := &inventory.Inventory{}
			for i := range tt.gpus {
				gpu := topology.Device{ID: fmt.Sprint("GPU-", i), Resource: "ngpus", Vendor: "nvidia", Model: "A100"}
				inv.Devices = append(inv.Devices, gpu)
			}
			node := smtNode(tt.cores)
			f := describeBlocks(cfg, node, node.Online, inv)
			blocks := tt.status == Impossible
			advised := strings.Contains(f.Advice, "blocks in [devices]")
			if f.Status != tt.status || f.Found != tt.found || f.Blocks != blocks || advised != blocks {
				t.Errorf("%+v\nwant %s: %s", f, tt.status, tt.found)
			}
		})
	}
}
