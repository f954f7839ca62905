package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/placement"
	"github.com/hookhost/hookhost/internal/topology"
)

// gpus are n GPUs, the first half of them next to NUMA node 0.
func gpus(n int) *inventory.Inventory {
	inv := &inventory.Inventory{
		Shared:  map[string][]topology.DeviceNode{"nvidia": {{Path: "/dev/nvidiactl", Major: 195, Minor: 255}}},
		Sources: []inventory.Source{{Name: "nvml", Count: n}},
	}
	for i := range n {
		id := fmt.Sprintf("GPU-%d", i)
		inv.Devices = append(inv.Devices, topology.Device{
			ID: id, UUID: id, Resource: "ngpus", Vendor: "nvidia", Model: "NVIDIA A100-SXM4-40GB", Memory: 40 * gib,
			Index: i, NUMA: i * 2 / n,
			Nodes: []topology.DeviceNode{{Path: fmt.Sprintf("/dev/nvidia%d", i), Major: 195, Minor: uint32(i)}},
		})
	}
	return inv
}

// store keeps the inventory as hook devices does, and makes the node's hook find it there.
func (n *node) store(inv *inventory.Inventory) {
	n.t.Helper()
	dir := n.t.TempDir()
	must.NoError(n.t, inv.Store(dir))
	loaded, err := inventory.Load(dir)
	must.NoError(n.t, err)
	n.devices = loaded
}

// granted returns the grant on the job's cgroup, or nil if there is none.
func (n *node) granted(id string) *inventory.Grant {
	n.t.Helper()
	g, err := inventory.GrantOf(n.cgroup(id))
	must.NoError(n.t, err)
	return g
}

// holds returns the names of the job's devices.
func (n *node) holds(id string) string {
	n.t.Helper()
	return holding{grant: n.granted(id)}.holds("ngpus")
}

// refuses checks that an event is refused in this way.
func (n *node) refuses(e hostapi.Event, id string, kind hostapi.Kind, text string, resources ...string) {
	n.t.Helper()
	out, err := n.event(e, id, asks(resources...))
	if is, says := refusal(out, err); is != kind || !strings.Contains(says, text) {
		n.t.Errorf("%v: %q of kind %q, want %q of kind %q", resources, says, is, text, kind)
	}
}

// Two jobs get different GPUs, each on the NUMA node of its cpus. They hold their GPUs until they
// end.
func TestBeginGrants(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.store(gpus(8))
		seen := map[string]bool{}
		for _, id := range []string{"1.srv", "2.srv"} {
			n.do(hostapi.EventBegin, id, asks("ncpus=2", "ngpus=1", "mem=64mb"))
			g := n.granted(id)
			l, err := n.cgroup(id).Limits("cpuset")
			must.NoError(t, err)
			if g == nil || len(g.Devices) != 1 || seen[g.Devices[0].ID] || len(g.Shared) != 1 {
				t.Fatalf("job %s was granted %+v, beside %v", id, g, seen)
			}
			seen[g.Devices[0].ID] = true
			if at := cpusOf(n.hook.node(), g.Devices[0].NUMA); !l.CPUs.Minus(at).IsEmpty() {
				t.Errorf("job %s has cpus %v, and %s next to %v", id, l.CPUs, g.Devices[0].ID, at)
			}
		}
		n.refuses(hostapi.EventBegin, "3.srv", kindHeld, "ngpus requested (9) exceeds ngpus available (8)", "ncpus=0",
			"ngpus=9", "mem=64mb")
		n.refuses(hostapi.EventBegin, "3.srv", hostapi.KindBusy,
			"ngpus requested (7) exceeds ngpus available (6); held: "+n.holds("1.srv")+" by job 1.srv, "+
				n.holds("2.srv")+" by job 2.srv", "ncpus=0", "ngpus=7", "mem=64mb")
		n.want("1.srv", "2.srv")
		n.restart()
		n.refuses(hostapi.EventBegin, "3.srv", hostapi.KindBusy, "ngpus requested (7)", "ncpus=0", "ngpus=7",
			"mem=64mb")
		n.do(hostapi.EventBegin, "3.srv", asks("ncpus=0", "ngpus=6", "mem=64mb"))
		if g := n.granted("3.srv"); len(g.Devices) != 6 {
			t.Errorf("granted %+v", g)
		}
		n.do(hostapi.EventEnd, "1.srv")
		n.do(hostapi.EventEnd, "3.srv")
		n.do(hostapi.EventBegin, "4.srv", asks("ncpus=2", "ngpus=7", "mem=64mb"))
		// A job that requests no devices has an empty grant on its cgroup.
		n.do(hostapi.EventBegin, "5.srv", asks("ncpus=0", "ngpus=0", "mem=64mb"))
		if g := n.granted("5.srv"); g == nil || g.Devices == nil || len(g.Devices)+len(g.Shared)+len(g.Blocks) != 0 {
			t.Errorf("granted %+v", g)
		}
	})
}

// An unreadable inventory does not matter to a job that requests no devices.
func TestBeginWithoutDevicesNeedsNone(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.store(gpus(2))
		n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "ngpus=1", "mem=64mb"))
		must.NoError(t, n.cgroup("1.srv").SetMark("trusted.hookhost.devices", []byte("not JSON")))
		n.do(hostapi.EventBegin, "2.srv", asks("ncpus=1", "mem=64mb"))
		n.hook.inventory = func() (*inventory.Inventory, error) { return nil, errors.ErrUnsupported }
		n.do(hostapi.EventBegin, "3.srv", asks("ncpus=1", "mem=64mb"))
	})
}

// A job without devices leaves cpus free near the free devices.
func TestBeginLeavesCPUsNearDevices(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewV2, nil)
	all := gpus(2)
	for i := range all.Devices {
		all.Devices[i].NUMA = n.hook.node().NUMA[0].ID
	}
	n.store(all)
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "mem=64mb"))
	if l, err := n.cgroup("1.srv").Limits(); err != nil || !l.CPUs.Intersect(n.hook.node().NUMA[0].CPUs).IsEmpty() {
		t.Errorf("cpus %s, %v: near the devices", l.CPUs, err)
	}
}

// On a new node a job may begin before hook devices has finished its first scan. It waits for that.
func TestBeginWaitsForTheFirstLook(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewHybrid, nil)
	n.store(gpus(1))
	looks := 0
	known := n.hook.inventory
	n.hook.inventory = func() (*inventory.Inventory, error) {
		if looks++; looks < 3 {
			return nil, fs.ErrNotExist
		}
		return known()
	}
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "ngpus=1", "mem=64mb"))
}

func TestBeginDevicesRefused(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewHybrid, nil)
	one := []string{"ncpus=1", "ngpus=1", "mem=64mb"}
	n.devices = nil
	err := n.hook.readDevices(&host{}, ask{blocks: 1}, nil)
	want := "hook devices has not reported the devices of this host yet"
	if hostapi.KindOf(err) != hostapi.KindBusy || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	n.store(gpus(0))
	n.refuses(hostapi.EventBegin, "1.srv", kindHeld, "ngpus requested (1) exceeds ngpus available (0)", one...)
	broken := gpus(0)
	broken.Sources[0].Error = "no answer within 10s"
	n.store(broken)
	n.refuses(hostapi.EventBegin, "1.srv", hostapi.KindBusy,
		"ngpus requested (1) exceeds ngpus available (0); not all devices of this host are known: "+
			"nvml: no answer within 10s", one...)
	broken.Sources[0].Name = "device" // this source does not find GPUs
	n.store(broken)
	n.refuses(hostapi.EventBegin, "1.srv", kindHeld, "ngpus requested (1)", one...)
	n.store(gpus(2))
	n.do(hostapi.EventBegin, "1.srv", asks(one...))
	must.NoError(t, n.cgroup("1.srv").SetMark("trusted.hookhost.devices", []byte("not JSON")))
	n.restart()
	n.refuses(hostapi.EventBegin, "2.srv", hostapi.KindNode, "devices of job 1.srv: read grant", one...)
	n.want("1.srv")
}

func TestDevicesNotEnabled(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewHybrid, func(c *config.File) { c.Devices.Enabled = false })
	n.devices = nil
	// Resources with other names belong to the site.
	out := n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "ngpus=1", "blocks=1.5", "gpus=two", "gpu_mem=high",
		"gpu_model=any*", "mem=64mb"))
	want := []string{"ngpus=1 is not enforced: [devices] is not enabled on this host"}
	if diff := cmp.Diff(want, out.Notes); diff != "" || n.granted("1.srv") != nil {
		t.Errorf("notes: -want +got:\n%s; granted %+v", diff, n.granted("1.srv"))
	}
}

// A device from the configuration is requested by its resource.
func TestBeginGrantsConfigured(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewV2, func(c *config.File) { // of two models
		c.Device = []config.Device{{Resource: "fpga", Paths: []string{"/dev/fpga0"}},
			{Resource: "fpga", Paths: []string{"/dev/xdma0"}}}
	})
	inv := gpus(2)
	inv.Devices = append(inv.Devices, topology.Device{ID: "/dev/fpga0", Resource: "fpga", NUMA: -1,
		Nodes: []topology.DeviceNode{{Path: "/dev/fpga0", Major: 240}}})
	n.store(inv)
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "fpga=1", "mem=64mb"))
	if g := n.granted("1.srv"); len(g.Devices) != 1 || g.Devices[0].ID != "/dev/fpga0" || len(g.Shared) != 0 {
		t.Errorf("granted %+v", g)
	}
	n.refuses(hostapi.EventBegin, "2.srv", hostapi.KindBusy,
		"fpga requested (1) exceeds fpga available (0); held: fpga0 by job 1.srv", "ncpus=1", "fpga=1")
	n.refuses(hostapi.EventBegin, "2.srv", kindHeld, "fpga requested (2) exceeds fpga available (1)", "ncpus=1",
		"fpga=2")
}

func TestJobsPerDevice(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewV2, func(c *config.File) { c.Devices.JobsPerDevice = 2 })
	n.store(gpus(1))
	for _, id := range []string{"1.srv", "2.srv"} {
		n.do(hostapi.EventBegin, id, asks("ncpus=1", "ngpus=1", "mem=64mb"))
	}
	n.refuses(hostapi.EventBegin, "3.srv", hostapi.KindBusy, "held: nvidia0 by job 1.srv, nvidia0 by job 2.srv",
		"ncpus=1", "ngpus=1")
}

// The cpus of a suspended job are given to others, but its devices are not. Those of a job that has
// ended are.
func TestDevicesOfOthersPlace(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.store(gpus(2))
		n.do(hostapi.EventBegin, "1.srv", asks("ncpus=4", "ngpus=1", "mem=64mb"))
		first := n.holds("1.srv")
		n.do(hostapi.EventPostsuspend, "1.srv")
		n.refuses(hostapi.EventBegin, "2.srv", hostapi.KindBusy,
			"ngpus requested (2) exceeds ngpus available (1); held: "+first+" by job 1.srv", "ncpus=4", "ngpus=2")
		n.do(hostapi.EventBegin, "2.srv", asks("ncpus=4", "ngpus=1", "mem=64mb"))
		if second := n.holds("2.srv"); second == first || second == "" {
			t.Errorf("it was granted %q, and the suspended job has %q", second, first)
		}
		n.do(hostapi.EventEpilogue, "2.srv")
		n.do(hostapi.EventBegin, "3.srv", asks("ncpus=4", "ngpus=1", "mem=64mb"))
	})
}

// With a vnode per NUMA node the device is near the cpus of the vnode that PBS chose.
func TestGrantNearVnode(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewV2, func(c *config.File) { c.Vnodes.PerNUMANode = true })
	n.store(gpus(8))
	for i, want := range []int{1, 0} {
		id := fmt.Sprintf("%d.srv", i)
		n.do(hostapi.EventBegin, id, func(r *hostapi.Request) {
			r.Job.ExecVnode = fmt.Sprintf("(%s[%d]:ncpus=1:ngpus=2:mem=65536kb)", testNode, want)
		})
		g := n.granted(id)
		if len(g.Devices) != 2 || slices.ContainsFunc(g.Devices, func(d topology.Device) bool {
			return d.NUMA != want
		}) {
			t.Errorf("on NUMA node %d: granted %+v", want, g.Devices)
		}
		n.do(hostapi.EventEnd, id)
	}
}

// A hook may die between any two steps of begin. Until the cgroup has its record it belongs to no
// job, and is removed along with any grant on it. After that, everything is complete.
func TestBeginKeepsGrantBeforeRecord(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.store(gpus(1))
		k.ResetJournal()
		n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "ngpus=1", "mem=64mb"))
		var marks []string
		for _, op := range steps(k) {
			if name, _, ok := strings.Cut(op.Value, "="); ok && op.Op == "setxattr" {
				marks = append(marks, name)
			}
		}
		// The first names no job.
		want := []string{"trusted.hookhost.job", "trusted.hookhost.devices", "trusted.hookhost.job"}
		if !slices.Equal(marks, want) {
			t.Errorf("marks in the order %q, want %q", marks, want)
		}
		n.do(hostapi.EventEnd, "1.srv")

		j := n.cgroup("2.srv")
		g, err := n.devices.Grant([]string{"GPU-0"})
		must.NoError(t, errors.Join(err, j.Create(n.limits("0")), g.Mark(j)))
		n.restart()
		n.want()
		n.do(hostapi.EventBegin, "3.srv", asks("ncpus=1", "ngpus=1", "mem=64mb"))
	})
}

// Devices are also given without cpusets, or without cpus.
func TestGrantWithoutCPUs(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewV2, func(c *config.File) { c.Cpuset.Enabled = false })
	n.store(gpus(2))
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=3", "ngpus=1", "mem=64mb"))
	n.do(hostapi.EventBegin, "2.srv", asks("ncpus=3", "ngpus=1", "mem=64mb"))
	if a, b := n.holds("1.srv"), n.holds("2.srv"); a == "" || b == "" || a == b {
		t.Errorf("granted %q and %q", a, b)
	}
}

// A GPU and an instance that is a part of it are not given to two jobs at the same time. It does
// not matter which of them is in the inventory.
func TestHeldDevices(t *testing.T) {
	gpu := topology.Device{ID: "GPU-0", UUID: "GPU-0"}
	first, second := topology.Device{ID: "MIG-1", UUID: "MIG-1", Parent: "GPU-0"},
		topology.Device{ID: "MIG-2", UUID: "MIG-2", Parent: "GPU-0"}
	fpga := topology.Device{ID: "/dev/fpga0"}
	node := []topology.DeviceNode{{Path: "/dev/nvidia0", Major: 195}}
	for _, tt := range []struct {
		name string
		pool []topology.Device
		held []topology.Device
		want map[string]int
	}{
		{"itself", []topology.Device{gpu, fpga}, []topology.Device{gpu}, map[string]int{"GPU-0": 1}},
		{"its sibling", []topology.Device{first, second}, []topology.Device{first}, map[string]int{"MIG-1": 1}},
		{"what it is part of", []topology.Device{first, second, fpga}, []topology.Device{gpu},
			map[string]int{"MIG-1": 1, "MIG-2": 1}},
		{"itself under its address", []topology.Device{{ID: "GPU-0", Nodes: node}, fpga},
			[]topology.Device{{ID: "0000:07:00.0", Nodes: node}}, map[string]int{"GPU-0": 1}},
		{"parts of it", []topology.Device{gpu, fpga}, []topology.Device{first, second}, map[string]int{"GPU-0": 1}},
	} {
		got := heldDevices(tt.pool, []holding{{id: "1", grant: &inventory.Grant{Devices: tt.held}}, {id: "2"}})
		must.Equal(t, tt.name, tt.want, got)
	}
}

// A GPU that was given by its address is not given again when its UUID is known.
func TestGPUGivenByItsAddressIsNotGivenByItsUUID(t *testing.T) {
	inv := gpus(2)
	had := inv.Devices[0]
	had.ID, had.UUID = "0000:07:00.0", ""
	lost := topology.Device{ID: "GPU-7"}
	pool := host{devices: inv}.pool(&inventory.Grant{Devices: []topology.Device{had, lost}})
	var ids []string
	for _, d := range pool {
		ids = append(ids, d.ID)
	}
	if diff := cmp.Diff([]string{"GPU-1", "0000:07:00.0", "GPU-7"}, ids); diff != "" || inv.Devices[0].ID != "GPU-0" {
		t.Errorf("-want +got:\n%s; the inventory has %s", diff, inv.Devices[0].ID)
	}
	if got := (host{devices: inv}).pool(nil); len(got) != 2 {
		t.Errorf("%d devices for a job that has none, want 2", len(got))
	}
}

func TestNeverEnough(t *testing.T) {
	for _, tt := range []struct {
		resource, failed string
		want             hostapi.Kind
	}{
		{"ngpus", "nvml", hostapi.KindBusy},
		{"ngpus", "scan", hostapi.KindBusy},
		{"ngpus", "device", hostapi.KindJob},
		{"fpga", "device", hostapi.KindBusy},
		{"fpga", "scan", hostapi.KindBusy},
		{"fpga", "amd", hostapi.KindJob},
		{"ncpus", "scan", hostapi.KindJob},
		{"fpga", "", hostapi.KindJob},
	} {
		inv := &inventory.Inventory{Sources: []inventory.Source{{Name: "intel"}}}
		if tt.failed != "" {
			inv.Sources = append(inv.Sources, inventory.Source{Name: tt.failed, Error: "no answer"})
		}
		if err := neverEnough(&placement.ShortageError{Resource: tt.resource}, inv); hostapi.KindOf(err) != tt.want {
			t.Errorf("%s with %q failed: %v of kind %q, want %q", tt.resource, tt.failed, err, hostapi.KindOf(err),
				tt.want)
		}
	}
}

// Without cpusets and devices a block consists only of its number and its memory.
func TestBlocksWithoutCPUs(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewHybrid, func(c *config.File) {
		c.Devices.Blocks, c.Cpuset.Enabled, c.Memory.ReservePercent = 2, false, 0
	})
	n.store(gpus(0))
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "blocks=1"))
	n.do(hostapi.EventBegin, "2.srv", asks("ncpus=1", "blocks=1"))
	if one, two := n.granted("1.srv").Blocks, n.granted("2.srv").Blocks; len(one) != 1 || len(two) != 1 ||
		one[0] == two[0] {
		t.Errorf("blocks %v and %v", one, two)
	}
	n.refuses(hostapi.EventBegin, "3.srv", hostapi.KindBusy, "held: block 0 by job 1.srv, block 1 by job 2.srv",
		"ncpus=1", "blocks=1")
}

// The blocks of a suspended job are given to others, except for their devices.
func TestFrozenBlocks(t *testing.T) {
	had := &inventory.Grant{Devices: gpus(1).Devices, Blocks: []int{1}}
	o := frozen(holding{grant: had})
	if len(o.grant.Blocks) != 0 || len(o.grant.Devices) != 1 || len(had.Blocks) != 1 {
		t.Errorf("held %+v of %+v", o.grant, had)
	}
}

func TestBlocksGrantShareOfEachResource(t *testing.T) {
	onFakes(t, func(c *config.File) { c.Devices.Blocks, c.Memory.ReservePercent = 4, 0 },
		func(t *testing.T, n *node, _ *kernfstest.Kernel) {
			n.store(gpus(8))
			out := n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "blocks=2"))
			g := n.granted("1.srv")
			if out.Usage.NCPUs != 2 || *out.Usage.MemLimitBytes != 8*gib || len(g.Devices) != 4 || len(g.Blocks) != 2 ||
				out.ResourcesUsed["ncpus"] != "2" {
				t.Errorf("usage %+v, granted %+v", out.Usage, g)
			}
			cpus, err := kernfs.ParseIDSet(out.Usage.CPUs)
			must.NoError(t, err)
			for _, d := range g.Devices {
				if cpusOf(n.hook.node(), d.NUMA).Intersect(cpus).IsEmpty() {
					t.Errorf("%s is not next to cpus %v", d.ID, cpus)
				}
			}
			// This job requests one cpu, and so has a part of a block.
			n.do(hostapi.EventBegin, "2.srv", asks("ncpus=1", "mem=64mb"))
			n.refuses(hostapi.EventBegin, "3.srv", hostapi.KindBusy,
				"blocks requested (2) exceeds blocks available (1); held: ", "ncpus=1", "blocks=2")
			n.refuses(hostapi.EventBegin, "3.srv", kindHeld, "blocks requested (5) exceeds blocks available (4)",
				"ncpus=1", "blocks=5")
			n.refuses(hostapi.EventBegin, "3.srv", kindHeld,
				"ncpus requested (2) exceeds that of blocks=1 (1)", "ncpus=2", "blocks=1")
			n.refuses(hostapi.EventBegin, "3.srv", kindHeld,
				"mem requested (5242880kb) exceeds that of blocks=1 (4194304kb)", "ncpus=1", "mem=5gb",
				"blocks=1")
			n.refuses(hostapi.EventBegin, "3.srv", kindHeld,
				"blocks=1: ngpus requested (3) exceeds ngpus available (2)", "ncpus=1", "ngpus=3", "blocks=1")
			// Requesting less is allowed, and the job is given the whole block.
			out = n.do(hostapi.EventBegin, "3.srv", asks("ncpus=0", "mem=1gb", "ngpus=1", "blocks=1"))
			if g := n.granted("3.srv"); len(g.Devices) != 2 || *out.Usage.MemLimitBytes != 4*gib {
				t.Errorf("usage %+v, granted %+v", out.Usage, g)
			}
			for _, id := range []string{"1.srv", "2.srv", "3.srv"} {
				n.do(hostapi.EventEnd, id)
			}
			out = n.do(hostapi.EventBegin, "4.srv", asks("ncpus=1", "blocks=4", "vmem=12gb"))
			if *out.Usage.MemLimitBytes != 12*gib || out.Usage.NCPUs != 4 {
				t.Errorf("usage %+v", out.Usage)
			}
		})
}

// The follower also enforces the memory of a job's blocks as its mem.
func TestBlocksByRSS(t *testing.T) {
	onFakes(t, func(c *config.File) { byRSS(c); c.Devices.Blocks, c.Memory.ReservePercent = 4, 0 },
		func(t *testing.T, n *node, k *kernfstest.Kernel) {
			n.store(gpus(4))
			n.begin("1.srv", asks("ncpus=1", "blocks=1"))
			n.refuses(hostapi.EventBegin, "2.srv", hostapi.KindBusy,
				"mem requested (13631488kb) exceeds mem available (12582912kb)", "ncpus=1", "mem=13gb")
			k.Charge(n.launch("1.srv"), kernfstest.Memory{Anon: 5 * gib})
			n.awaitDeath("1.srv")
			n.wantExcess("1.srv", "=>> PBS: job killed: mem 5242880kb exceeded limit 4194304kb")
		})
}

// A host that cannot be divided is the administrator's fault. A request for blocks where none are
// configured is the job's.
func TestBlocksRefused(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewV2, func(c *config.File) { c.Devices.Blocks = 3 })
	n.store(gpus(8))
	n.refuses(hostapi.EventBegin, "1.srv", hostapi.KindNode, "devices.blocks: cut node into 3 blocks", "ncpus=1",
		"blocks=1")
	n, _ = fakeNode(t, kernfstest.NewV2, nil)
	n.refuses(hostapi.EventBegin, "1.srv", kindHeld, "blocks requested (1) exceeds blocks available (0)", "ncpus=1",
		"blocks=1")
}

// The ncpus of a block are counted like those of a job.
func TestBlocksCountCPUs(t *testing.T) {
	for _, tt := range []struct {
		threads, cores bool
		ncpus, cpus    int
	}{{false, false, 2, 2}, {true, false, 4, 4}, {true, true, 2, 4}} {
		n, _ := fakeNode(t, kernfstest.NewV2, func(c *config.File) {
			c.Devices.Blocks, c.Cpuset.UseHyperthreads, c.Cpuset.NCPUsAreCores = 2, tt.threads, tt.cores
		})
		n.store(gpus(2))
		u := n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "blocks=1")).Usage
		if cpus, err := kernfs.ParseIDSet(u.CPUs); err != nil || cpus.Len() != tt.cpus || u.NCPUs != tt.ncpus {
			t.Errorf("%+v: %d ncpus, cpus %s, %v", tt, u.NCPUs, u.CPUs, err)
		}
		n.do(hostapi.EventEnd, "1.srv")
	}
}

// Later jobs see the same blocks, no matter what other jobs hold.
func TestAssignBlocksBesideAnother(t *testing.T) {
	p := testPolicy(t, func(f *config.File) { f.Devices.Blocks = 4 })
	h := fourCPUs(0)
	h.devices = gpus(4)
	for i := range h.devices.Devices {
		h.devices.Devices[i].NUMA = 0
	}
	var held []holding
	for i := range 4 {
		got, err := p.assign(h, ask{HostShare: pbs.HostShare{NCPUs: 1}, blocks: 1}, held)
		must.NoError(t, err)
		held = append(held, holding{id: fmt.Sprint(i), limits: got.limits, grant: got.grant})
	}
	for i, a := range held {
		for _, b := range held[:i] {
			if a.grant.Blocks[0] == b.grant.Blocks[0] || a.grant.Devices[0].ID == b.grant.Devices[0].ID ||
				!a.limits.CPUs.Intersect(b.limits.CPUs).IsEmpty() {
				t.Errorf("%+v and %+v", a, b)
			}
		}
	}
	// A block is not free if only a device of it is held.
	one := []holding{{id: "9", grant: &inventory.Grant{Devices: h.devices.Devices[:1]}}}
	_, err := p.assign(h, ask{blocks: 4}, one)
	want := "blocks requested (4) exceeds blocks available (3); held: nvidia0 by job 9"
	if hostapi.KindOf(err) != hostapi.KindBusy || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

// A job that is being resized holds the devices and blocks of both sizes. Devices that it gives up
// are leaving in the new grant, which has the next serial.
func TestGrantsOfAResize(t *testing.T) {
	d := gpus(4).Devices
	had := &inventory.Grant{Devices: d[:2], Leaving: d[3:], Blocks: []int{0}, Serial: 3}
	gets := &inventory.Grant{Devices: d[1:3], Blocks: []int{1}}
	none := &inventory.Grant{Devices: []topology.Device{}}
	must.Equal(t, "on the way", &inventory.Grant{Devices: d[:3], Leaving: d[3:], Blocks: []int{0, 1}, Serial: 3},
		both(had, gets))
	must.Equal(t, "on the way of a job that had none", gets, both(nil, gets))
	must.Equal(t, "on the way of a job that asks for none", had, both(had, nil))
	leaving := []topology.Device{d[0], d[3]}
	must.Equal(t, "then", &inventory.Grant{Devices: d[1:3], Leaving: leaving, Blocks: []int{1}, Serial: 4},
		regrant(had, gets))
	must.Equal(t, "of a job that had none", gets, regrant(nil, gets))
	leaving = []topology.Device{d[0], d[1], d[3]}
	must.Equal(t, "of a job that asks for none", &inventory.Grant{Devices: none.Devices, Leaving: leaving, Serial: 4},
		regrant(had, nil))
	if g := regrant(had, &inventory.Grant{Devices: d[:2], Blocks: []int{0}}); g != had {
		t.Errorf("where nothing changes: %+v", g)
	}
}

// A resize keeps as many of the job's devices as it can, and gives up the rest.
func TestResizeGrants(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.store(gpus(8))
		n.do(hostapi.EventBegin, "1.srv", asks("ncpus=2", "ngpus=2", "mem=64mb"))
		n.do(hostapi.EventBegin, "2.srv", asks("ncpus=1", "ngpus=1", "mem=64mb"))
		other := n.holds("2.srv")
		had := strings.Split(n.holds("1.srv"), ",")
		for _, count := range []int{3, 3, 1, 0, 0, 2, 7} {
			if _, err := n.resize("1.srv", "ncpus=2", "mem=64mb", fmt.Sprintf("ngpus=%d", count)); err != nil {
				t.Fatal(err)
			}
			var gets []string
			if text := n.holds("1.srv"); text != "" {
				gets = strings.Split(text, ",")
			}
			kept := slices.DeleteFunc(slices.Clone(gets), func(name string) bool { return !slices.Contains(had, name) })
			if len(gets) != count || len(kept) != min(len(had), count) || slices.Contains(gets, other) {
				t.Errorf("%d instead of %q: %q", count, had, gets)
			}
			had = gets
		}
		before := n.granted("1.srv")
		for _, tt := range []struct {
			kind hostapi.Kind
			text string
			ask  []string
		}{
			{hostapi.KindJob, "ngpus requested (9) exceeds ngpus available (8)",
				[]string{"ncpus=2", "mem=64mb", "ngpus=9"}},
			{hostapi.KindBusy, "ngpus requested (8) exceeds ngpus available (7); held: " + other + " by job 2.srv",
				[]string{"ncpus=2", "mem=64mb", "ngpus=8"}},
			{hostapi.KindJob, "ncpus requested (9)", []string{"ncpus=9", "mem=64mb", "ngpus=1"}},
		} {
			n.refuses(hostapi.EventResize, "1.srv", tt.kind, tt.text, tt.ask...)
			must.Equal(t, fmt.Sprint(tt.ask), before, n.granted("1.srv"))
		}
		// The job keeps a device that was not found this time.
		n.store(gpus(0))
		if _, err := n.resize("1.srv", "ncpus=2", "mem=128mb", "ngpus=7"); err != nil {
			t.Error(err)
		}
		must.Equal(t, "", before, n.granted("1.srv"))
		if _, err := n.resize("1.srv", "ncpus=2", "mem=128mb", "ngpus=2"); err != nil {
			t.Error(err)
		}
		if g := n.granted("1.srv"); len(g.Devices) != 2 || len(g.Shared) != 1 {
			t.Errorf("granted %+v", g)
		}
	})
}

// A job that began before devices were enabled is left alone until it requests some.
func TestResizeOfOlderJob(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewHybrid, func(c *config.File) { c.Devices.Enabled = false })
	n.store(gpus(2))
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "mem=64mb"))
	n.hook.policy.Devices.Enabled = true
	n.do(hostapi.EventBegin, "2.srv", asks("ncpus=1", "ngpus=1", "mem=64mb"))
	n.do(hostapi.EventResize, "1.srv", asks("ncpus=1", "mem=128mb"))
	if g := n.granted("1.srv"); g != nil {
		t.Errorf("granted %+v without asking", g)
	}
	n.do(hostapi.EventResize, "1.srv", asks("ncpus=1", "ngpus=1", "mem=128mb"))
	if g := n.granted("1.srv"); g == nil || len(g.Devices) != 1 || n.holds("1.srv") == n.holds("2.srv") {
		t.Errorf("granted %+v, and %s to the other", g, n.holds("2.srv"))
	}
}

// If any step of a resize fails, the job keeps the devices that it had.
func TestResizeFailsWithDevices(t *testing.T) {
	for _, f := range fakes {
		for name, way := range map[string][2]int{"up": {1, 2}, "down": {2, 1}} {
			prepare := func(t *testing.T) (*node, *kernfstest.Kernel) {
				n, k := fakeNode(t, f.boot, nil)
				n.store(gpus(2))
				n.do(hostapi.EventBegin, "1.srv", asks(fmt.Sprintf("ncpus=%d", way[0]), fmt.Sprintf("ngpus=%d", way[0]),
					fmt.Sprintf("mem=%dmb", 64*way[0])))
				k.ResetJournal()
				return n, k
			}
			to := []string{fmt.Sprintf("ncpus=%d", way[1]), fmt.Sprintf("ngpus=%d", way[1]),
				fmt.Sprintf("mem=%dmb", 64*way[1])}
			n, k := prepare(t)
			if _, err := n.resize("1.srv", to...); err != nil {
				t.Fatal(err)
			}
			var grants []int
			ops := steps(k)
			for _, op := range ops {
				if text, ok := strings.CutPrefix(op.Value, "trusted.hookhost.devices="); ok {
					text, _, _ = strings.Cut(text, `"leaving"`)
					grants = append(grants, strings.Count(text, `"id"`))
				}
			}
			if want := []int{way[1]}; !slices.Equal(grants, want) {
				t.Errorf("%s, %s: devices in the marks %v, want %v", f.name, name, grants, want)
			}
			for _, op := range ops {
				t.Run(f.name+"/"+name+"/"+op.Op+" "+strings.ReplaceAll(op.Path, "/", " "), func(t *testing.T) {
					n, k := prepare(t)
					before := n.granted("1.srv")
					heal := k.Fail(op.Op, op.Path, unix.EIO)
					if _, err := n.resize("1.srv", to...); hostapi.KindOf(err) != hostapi.KindNode {
						t.Errorf("error %v of kind %q", err, hostapi.KindOf(err))
					}
					heal()
					must.Equal(t, "", before, n.granted("1.srv"))
				})
			}
		}
	}
}

// A device that a job gave up stays in its filter, and nobody else gets it, until hook devices has
// handled the event too.
func TestDeviceGivenUpIsNobodysUntilTheFilterFollows(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewV2, nil)
	n.store(gpus(4))
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "ngpus=2", "mem=64mb"))
	for range 2 { // an event may come twice
		_, err := n.resize("1.srv", "ncpus=1", "ngpus=1", "mem=64mb")
		must.NoError(t, err)
	}
	for range 2 {
		n.refuses(hostapi.EventBegin, "2.srv", hostapi.KindBusy, "ngpus requested (3) exceeds ngpus available (2)",
			"ncpus=1", "ngpus=3")
		n.restart()
	}
	must.NoError(t, n.granted("1.srv").Applied(n.cgroup("1.srv")))
	n.do(hostapi.EventBegin, "2.srv", asks("ncpus=1", "ngpus=3", "mem=64mb"))
}

// While a job is being resized, others get neither the devices that it has nor those that it will
// get. That is also true if the job gave up a device before.
func TestDevicesOfAResizeUnderWayAreTaken(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewV2, nil)
	n.store(gpus(4))
	n.begin("1.srv", asks("ncpus=1", "ngpus=2", "mem=64mb"))
	_, err := n.resize("1.srv", "ncpus=1", "ngpus=1", "mem=64mb")
	must.NoError(t, err)
	must.NoError(t, n.granted("1.srv").Applied(n.cgroup("1.srv")))
	told, z := n.sized("1.srv", "ncpus=1", "ngpus=3", "mem=64mb")
	n.refuses(hostapi.EventBegin, "2.srv", hostapi.KindBusy, "ngpus requested (2) exceeds ngpus available (1)",
		"ncpus=1", "ngpus=2")
	old := n.state("1.srv").JobMark
	must.NoError(t, n.change(n.cgroup("1.srv"), z, old, resized(old, told, z)))
	if g := n.granted("1.srv"); len(g.Devices) != 3 || len(g.Leaving) > 0 {
		t.Errorf("granted %+v", g)
	}
}

func TestResizeBlocks(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewV2, func(c *config.File) { c.Devices.Blocks, c.Memory.ReservePercent = 4, 0 })
	n.store(gpus(4))
	n.do(hostapi.EventBegin, "1.srv", asks("ncpus=1", "blocks=2"))
	n.do(hostapi.EventBegin, "2.srv", asks("ncpus=1", "blocks=1"))
	had := n.granted("1.srv")
	for _, count := range []int{3, 1, 2} {
		if _, err := n.resize("1.srv", "ncpus=1", fmt.Sprintf("blocks=%d", count)); err != nil {
			t.Fatal(err)
		}
		g := n.granted("1.srv")
		l := n.limitsNow("1.srv")
		kept := slices.DeleteFunc(slices.Clone(g.Blocks), func(b int) bool { return !slices.Contains(had.Blocks, b) })
		if len(g.Blocks) != count || len(kept) != min(count, len(had.Blocks)) || len(g.Devices) != count ||
			l.CPUs.Len() != count || *l.Mem != int64(count)*4*gib {
			t.Errorf("%d blocks: granted %+v, limits %+v", count, g, l)
		}
		if s := n.state("1.srv"); s.NCPUs != count {
			t.Errorf("state %+v", s)
		}
		had = g
	}
}

// This hook reads the inventory that hook devices stored in the state directory.
func TestInventoryOfStateDir(t *testing.T) {
	kernfstest.NeedRoot(t)
	c := config.Default()
	c.Cgroup.Prefix, c.Cgroup.Systemd = testPrefix()+"_inventory", "off"
	text, err := json.Marshal(c)
	must.NoError(t, err)
	dir := t.TempDir()
	for _, host := range []map[string]string{nil, {"state_dir": dir}} {
		v, err := newHook(&hostapi.Setup{Config: text, Host: host, Log: logrus.NewEntry(logrus.New())})
		if err != nil {
			kernfstest.Skip(t, "%v", err)
		}
		h := v.(*hook)
		if _, err := h.inventory(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("nobody has told: %v", err)
		}
		must.NoError(t, gpus(2).Store(dir))
		if inv, err := h.inventory(); host == nil && !errors.Is(err, fs.ErrNotExist) || host != nil &&
			(err != nil || len(inv.Devices) != 2) {
			t.Errorf("in %v: %+v, %v", host, inv, err)
		}
		must.NoError(t, os.RemoveAll(filepath.Join(dir, "devices.json")))
	}
}
