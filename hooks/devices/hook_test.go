package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/hostapi/hooktest"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/devrule"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/topology"
)

// eight is the inventory of a node with eight A100, two on each NUMA node.
func eight() *inventory.Inventory {
	inv := &inventory.Inventory{Shared: map[string][]topology.DeviceNode{"nvidia": nvidiaShared},
		Sources: []inventory.Source{{Name: "nvml", Count: 8}}}
	for i := range 8 {
		inv.Devices = append(inv.Devices, a100(i))
	}
	return inv
}

// onModes runs a test for each kind of cgroup on this machine that can have a filter.
func onModes(t *testing.T, test func(t *testing.T, mode cgroup.Mode)) {
	for name, mode := range map[string]cgroup.Mode{"v1": cgroup.ModeV1, "v2": 0} {
		t.Run(name, func(t *testing.T) { test(t, mode) })
	}
}

// The test checks at each step of a job's life what the job can open.
func TestJobOpensItsDevicesFromBeginToEnd(t *testing.T) {
	onModes(t, func(t *testing.T, mode cgroup.Mode) {
		n := newNode(t, mode, eight(), nil)
		out := n.do(hostapi.EventStartup)
		if got := out.Vnodes[testNode].ResourcesAvailable["ngpus"]; got != "8" {
			t.Errorf("startup: ngpus %q, want 8", got)
		}
		const id = "12[3].srv"
		j := n.job(id, a100(2), a100(3))
		null := topology.DeviceNode{Path: "/dev/null", Major: 1, Minor: 3}
		disk := topology.DeviceNode{Path: "/dev/loop0", Block: true, Major: 7}
		want := func(when string, ours ...int) {
			t.Helper()
			n.wantGPUs(when, j, ours...)
			if got := n.opens(j, null, unix.O_RDWR); got != 0 {
				t.Errorf("%s: open null: %v", when, got)
			}
			if got := n.opens(j, disk, unix.O_RDONLY); got != unix.EPERM {
				t.Errorf("%s: open loop0: %v, want EPERM", when, got)
			}
		}
		out = n.do(hostapi.EventBegin, id)
		if u := out.Usage; u == nil || len(u.Devices) != 2 || u.Devices[0].ID != uuid(2) ||
			u.Devices[0].EnergyJoules != nil {
			t.Errorf("begin: usage %+v", u)
		}
		env := map[string]string{
			"CUDA_VISIBLE_DEVICES": uuid(2) + "," + uuid(3), "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
			"NVIDIA_VISIBLE_DEVICES": uuid(2) + "," + uuid(3), cdiVariable: "hookhost.org/job=12:3.srv",
			"PBS_JOB_GPUS": uuid(2) + "," + uuid(3),
		}
		for what, got := range map[string]map[string]string{
			"attached":          out.AttachEnv,
			"launched":          n.do(hostapi.EventLaunch, id).SetEnv,
			"of a lost record":  n.do(hostapi.EventPeriodic, id).Jobs[id].AttachEnv,
			"of one at a start": n.do(hostapi.EventStartup, id).Jobs[id].AttachEnv,
		} {
			must.Equal(t, fmt.Sprintf("%s: environment", what), env, got)
		}
		want("begin", 2, 3)
		if got := n.opens(j, nvidiaShared[0], unix.O_RDWR); got == unix.EPERM {
			t.Errorf("open nvidiactl: %v", got)
		}
		cdi := n.cdi.file(id)
		if _, err := os.Stat(cdi); err != nil {
			t.Error(err)
		}
		n.wantMapping(map[string]string{"2": id + "\n", "3": id + "\n"})

		// Another job is given the devices that the first one gave back.
		n.grant(j, a100(3), a100(4))
		given, err := inventory.GrantOf(j)
		must.NoError(t, err)
		given.Leaving, given.Serial = []topology.Device{a100(2)}, 1
		must.NoError(t, given.Mark(j))
		out = n.do(hostapi.EventResize, id)
		var told []string
		for _, d := range out.Usage.Devices {
			told = append(told, fmt.Sprint(d.ID, d.Returned))
		}
		must.Equal(t, "resize: devices", []string{uuid(2) + "true", uuid(3) + "false", uuid(4) + "false"}, told)
		want("resize", 3, 4)
		if got := out.AttachEnv["CUDA_VISIBLE_DEVICES"]; got != uuid(3)+","+uuid(4) {
			t.Errorf("attach after resize: %s", got)
		}
		if g, err := inventory.GrantOf(j); err != nil || len(g.Leaving) != 0 || len(g.Devices) != 2 {
			t.Errorf("after resize the grant is %+v, %v", g, err)
		}
		n.wantMapping(map[string]string{"3": id + "\n", "4": id + "\n"})
		if got := n.do(hostapi.EventLaunch, id).SetEnv["CUDA_VISIBLE_DEVICES"]; got != uuid(3)+","+uuid(4) {
			t.Errorf("launch after resize: %s", got)
		}

		// The hook's program is restarted. Meanwhile somebody has removed the filter, if that is
		// possible.
		h, err := n.boot()
		must.NoError(t, err)
		n.hook = h
		n.do(hostapi.EventStartup, id)
		want("restart", 3, 4)

		if out := n.do(hostapi.EventEpilogue, id); len(out.Usage.Devices) != 2 || out.Usage.Devices[0].ID != uuid(3) {
			t.Errorf("epilogue: usage %+v", out.Usage)
		}
		for range 2 {
			n.do(hostapi.EventEnd, id)
		}
		if _, err := os.Stat(cdi); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("CDI file after end: %v", err)
		}
		n.wantMapping(map[string]string{})
	})
}

// wantGPUs checks which of eight GPUs a job can open.
func (n *node) wantGPUs(when string, j *cgroup.Job, ours ...int) {
	n.t.Helper()
	for i := range 8 {
		if got := n.opens(j, a100(i).Nodes[0], unix.O_RDWR); (got != unix.EPERM) != slices.Contains(ours, i) {
			n.t.Errorf("%s: open GPU %d: %v; the job has %v", when, i, got, ours)
		}
	}
}

func (n *node) wantMapping(want map[string]string) {
	n.t.Helper()
	must.Equal(n.t, "job mapping", want, readMapping(n.t, n.mapping.dir))
}

// A job that requested no device has the filter too.
func TestJobWithoutDevices(t *testing.T) {
	onModes(t, func(t *testing.T, mode cgroup.Mode) {
		n := newNode(t, mode, eight(), nil)
		n.do(hostapi.EventStartup)
		j := n.job("1.srv")
		if out := n.do(hostapi.EventBegin, "1.srv"); out.Usage != nil {
			t.Errorf("usage %+v", out.Usage)
		}
		for _, node := range []topology.DeviceNode{a100(0).Nodes[0], nvidiaShared[0]} {
			if got := n.opens(j, node, unix.O_RDWR); got != unix.EPERM {
				t.Errorf("open %s: %v, want EPERM", node.Path, got)
			}
		}
		env := n.do(hostapi.EventLaunch, "1.srv").SetEnv
		if v, set := env["CUDA_VISIBLE_DEVICES"]; !set || v != "" {
			t.Errorf("CUDA_VISIBLE_DEVICES %q, %t, want it set and empty", v, set)
		}
		if v, set := env[cdiVariable]; set {
			t.Errorf("%s=%s", cdiVariable, v)
		}
		if files, err := n.cdi.files(); err != nil || len(files) > 0 {
			t.Errorf("CDI files %v, %v", files, err)
		}
		if out := n.do(hostapi.EventEpilogue, "1.srv"); out.Usage != nil {
			t.Errorf("epilogue: usage %+v", out.Usage)
		}
		n.do(hostapi.EventEnd, "1.srv")
	})
}

// A launch restores a missing filter, and so does a periodic.
func TestLaunchConfines(t *testing.T) {
	onModes(t, func(t *testing.T, mode cgroup.Mode) {
		n := newNode(t, mode, eight(), nil)
		n.do(hostapi.EventStartup)
		for id, e := range map[string]hostapi.Event{"1.srv": hostapi.EventLaunch, "2.srv": hostapi.EventPeriodic} {
			j := n.job(id, a100(0))
			if got := n.opens(j, a100(1).Nodes[0], unix.O_RDWR); got == unix.EPERM {
				t.Fatalf("before %s: %v", e, got)
			}
			n.do(e, id)
			if got := n.opens(j, a100(1).Nodes[0], unix.O_RDWR); got != unix.EPERM {
				t.Errorf("after %s: %v, want EPERM", e, got)
			}
		}
	})
}

// A job that began before devices were enabled keeps its access. No job begins without a grant from
// hook cgroup.
func TestJobFromBefore(t *testing.T) {
	onModes(t, func(t *testing.T, mode cgroup.Mode) {
		n := newNode(t, mode, eight(), nil)
		j := n.bare("1.srv")
		n.do(hostapi.EventStartup, "1.srv")
		if want := "it began before devices were enabled"; strings.Count(n.logged.String(), want) != 1 {
			t.Errorf("logged %q, want %q once", n.logged.String(), want)
		}
		for _, e := range []hostapi.Event{hostapi.EventLaunch, hostapi.EventResize} {
			if out := n.do(e, "1.srv"); len(out.SetEnv)+len(out.AttachEnv) > 0 || out.Usage != nil {
				t.Errorf("%s: %+v, want nothing", e, out)
			}
		}
		if out := n.do(hostapi.EventPeriodic, "1.srv"); len(out.Jobs) > 0 {
			t.Errorf("periodic: %+v, want nothing of the job", out)
		}
		if got := n.opens(j, a100(1).Nodes[0], unix.O_RDWR); got == unix.EPERM {
			t.Errorf("it has lost a GPU: %v", got)
		}
		_, err := n.event(hostapi.EventBegin, "1.srv")
		if want := "with devices enabled"; hostapi.KindOf(err) != hostapi.KindNode ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("begin: %v (%s), want %s", err, hostapi.KindOf(err), want)
		}
	})
}

// Several calls may confine one job concurrently while hook cgroup gives it other devices. In the
// end the last grant on its cgroup is in force, and no call fails.
func TestConfineAtOnce(t *testing.T) {
	onModes(t, func(t *testing.T, mode cgroup.Mode) {
		n := newNode(t, mode, eight(), nil)
		n.do(hostapi.EventStartup)
		j := n.job("1.srv", a100(0))
		n.do(hostapi.EventBegin, "1.srv")
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				for range 25 {
					if _, err := n.confine(j); err != nil {
						t.Error(err)
					}
					if err := n.follow(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for i := range 30 {
			g := &inventory.Grant{Devices: []topology.Device{a100(i % 8)}, Shared: nvidiaShared,
				Leaving: []topology.Device{a100((i + 1) % 8)}, Serial: i + 1}
			must.NoError(t, g.Mark(j))
			if _, err := n.confine(j); err != nil {
				t.Error(err)
			}
		}
		wait.Wait()
		const last = 29 % 8
		n.wantGPUs("afterwards", j, last)
		if g, err := inventory.GrantOf(j); err != nil || len(g.Leaving) > 0 || g.Devices[0].ID != uuid(last) {
			t.Errorf("grant %+v, %v", g, err)
		}
	})
}

// A hook that starts removes from a job's filter the devices that the job has given up, and records
// that.
func TestStartupDuringResize(t *testing.T) {
	onModes(t, func(t *testing.T, mode cgroup.Mode) {
		n := newNode(t, mode, eight(), nil)
		j := n.job("1.srv", a100(0))
		g := &inventory.Grant{Devices: []topology.Device{a100(0)}, Leaving: []topology.Device{a100(2)},
			Shared: nvidiaShared, Serial: 1}
		must.NoError(t, g.Mark(j))
		n.do(hostapi.EventStartup, "1.srv")
		n.wantGPUs("startup", j, 0)
		g.Leaving = nil
		if got, err := inventory.GrantOf(j); err != nil || !cmp.Equal(got, g) {
			t.Errorf("the grant is %+v, %v", got, err)
		}
	})
}

// The driver of a device that every job may open can be loaded while jobs run. The device is then
// open to later jobs, and to a running job from its next launch on.
func TestDriverLoadedLater(t *testing.T) {
	n := newNode(t, 0, eight(), nil)
	n.do(hostapi.EventStartup)
	uverbs := topology.DeviceNode{Path: "/dev/infiniband/uverbs0", Major: 231, Minor: 192}
	early := n.job("1.srv")
	n.do(hostapi.EventBegin, "1.srv")
	if got := n.opens(early, uverbs, unix.O_RDWR); got != unix.EPERM {
		t.Fatalf("before the driver: %v, want EPERM", got)
	}
	n.nodes.Store(&map[string]devrule.Node{"infiniband/uverbs0": {Kind: devrule.Char, Major: 231, Minor: 192}})
	late := n.job("2.srv")
	n.do(hostapi.EventBegin, "2.srv")
	n.do(hostapi.EventLaunch, "1.srv")
	for _, j := range []*cgroup.Job{early, late} {
		if got := n.opens(j, uverbs, unix.O_RDWR); got == unix.EPERM {
			t.Errorf("job %s, after the driver: %v", j.ID(), got)
		}
	}
}

// A list that opens everything does not open a GPU whose driver is loaded while jobs run, not even
// to running jobs. While a failed source leaves the devices unknown, running jobs lose nothing.
func TestGPUsComeWhileJobsRun(t *testing.T) {
	onModes(t, func(t *testing.T, mode cgroup.Mode) {
		none := &inventory.Inventory{Sources: []inventory.Source{{Name: "nvidia"}}}
		n := newNode(t, mode, none, func(f *config.File) { f.Devices.Allow = []any{"c *:* rw"} })
		n.do(hostapi.EventStartup)
		runs, before := n.job("1.srv"), n.bare("2.srv") // from before devices were enabled
		n.do(hostapi.EventBegin, "1.srv")
		gpu, other := a100(0).Nodes[0], topology.DeviceNode{Path: "/dev/local", Major: 120, Minor: 1}
		expect := func(what string, j *cgroup.Job, node topology.DeviceNode, want bool) {
			t.Helper()
			if got := n.opens(j, node, unix.O_RDWR); (got != unix.EPERM) != want {
				t.Errorf("%s: job %s, open %s: %v", what, j.ID(), node.Path, got)
			}
		}
		change := func(inv *inventory.Inventory) {
			n.finds(inv)
			<-n.keeper.refresh(n.life, &n.background)
		}
		expect("without GPUs", runs, gpu, true)
		failed := &inventory.Inventory{Sources: []inventory.Source{{Name: "nvidia", Error: "it hangs"}}}
		change(failed)
		n.do(hostapi.EventPeriodic)
		expect("while nothing is known", runs, other, true)
		change(eight())
		expect("with GPUs", runs, gpu, false)
		expect("with GPUs", before, gpu, true)
		change(none)
		expect("without GPUs again", runs, other, true)
	})
}

// A job needs a cgroup, because the filter is attached to it.
func TestNoCgroup(t *testing.T) {
	n := newNode(t, 0, eight(), nil)
	n.do(hostapi.EventStartup, "1.srv") // a listed job whose cgroup has gone
	for _, e := range []hostapi.Event{hostapi.EventBegin, hostapi.EventLaunch, hostapi.EventResize} {
		_, err := n.event(e, "1.srv")
		want := "job 1.srv has no cgroup: hook cgroup must run before hook devices"
		if hostapi.KindOf(err) != hostapi.KindNode || err.Error() != want {
			t.Errorf("%s: %v (%s), want %s", e, err, hostapi.KindOf(err), want)
		}
	}
	for _, e := range []hostapi.Event{hostapi.EventEpilogue, hostapi.EventEnd, hostapi.EventAbort} {
		n.do(e, "1.srv")
	}
}

// Numbers of devices change from boot to boot, so old numbers may open another device.
func TestOutdatedGrant(t *testing.T) {
	n := newNode(t, 0, eight(), nil)
	n.do(hostapi.EventStartup)
	moved, gone := a100(0), a100(0)
	moved.Nodes = []topology.DeviceNode{{Path: "/dev/nvidia0", Major: 195, Minor: 5}}
	gone.ID = "GPU-gone"
	for name, d := range map[string]topology.Device{"1.srv": moved, "2.srv": gone} {
		n.job(name, d)
		if _, err := n.event(hostapi.EventBegin, name); hostapi.KindOf(err) != hostapi.KindBusy {
			t.Errorf("%s: %v, want a busy error", d.ID, err)
		}
	}
	uvm := eight()
	uvm.Shared = map[string][]topology.DeviceNode{"nvidia": {nvidiaShared[0], {Path: "/dev/nvidia-uvm", Major: 510}}}
	err := outdated(&inventory.Grant{Devices: []topology.Device{a100(0)}, Shared: nvidiaShared}, uvm)
	want := "the devices of this host have changed: it was given /dev/nvidia-uvm (c 511:0) as it was before"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	for _, g := range []*inventory.Grant{{}, {Devices: eight().Devices, Shared: nvidiaShared}} {
		if err := outdated(g, eight()); err != nil {
			t.Error(err)
		}
	}
	if err := outdated(&inventory.Grant{Devices: []topology.Device{a100(0)}}, nil); err == nil {
		t.Error("a grant is good though nothing is known")
	}
}

// If a CDI specification cannot be written, the job does not fail, but its owner is told.
func TestBeginWithoutCDI(t *testing.T) {
	n := newNode(t, 0, eight(), nil)
	n.do(hostapi.EventStartup)
	if err := os.WriteFile(n.cdi.dir, nil, 0o644); err != nil { // a file in place of the directory
		t.Fatal(err)
	}
	j := n.job("1.srv", a100(0))
	if out := n.do(hostapi.EventBegin, "1.srv"); len(out.Notes) != 1 || !strings.Contains(out.Notes[0], "CDI") {
		t.Errorf("notes %q", out.Notes)
	}
	if got := n.opens(j, a100(1).Nodes[0], unix.O_RDWR); got != unix.EPERM {
		t.Errorf("the job opens another's GPU: %v, want EPERM", got)
	}
	must.NoError(t, os.Remove(n.cdi.dir))
	n.do(hostapi.EventEnd, "1.srv")
}

// Any user can hold the lock of the directories for container runtimes and exporters. Meanwhile
// jobs begin and end. The files are right once the lock is free.
func TestHeldDirectoryHoldsUpNoJob(t *testing.T) {
	n := newNode(t, 0, eight(), nil)
	n.cdiChanges.patience, n.mappingChanges.patience = 50*time.Millisecond, 50*time.Millisecond
	must.NoError(t, os.Mkdir(n.cdi.dir, 0o755), os.Mkdir(n.mapping.dir, 0o755))
	n.do(hostapi.EventStartup)
	for i, id := range []string{"1.srv", "2.srv"} {
		n.job(id, a100(i))
	}
	freeCDI, freeMapping := kernfstest.HoldDirectory(t, n.cdi.dir), kernfstest.HoldDirectory(t, n.mapping.dir)
	done := make(chan error, 1)
	event := func(e hostapi.Event, id string) {
		go func() {
			_, err := n.event(e, id)
			done <- err
		}()
		must.NoError(t, must.Receive(t, fmt.Sprintf("%s of %s", e, id), done))
	}
	event(hostapi.EventBegin, "1.srv")
	event(hostapi.EventBegin, "2.srv")
	event(hostapi.EventEnd, "1.srv")
	event(hostapi.EventStartup, "2.srv")
	if !strings.Contains(n.logged.String(), "fuser -v "+n.cdi.dir) {
		t.Errorf("the log does not say who holds the lock: %s", n.logged.String())
	}
	freeCDI()
	freeMapping()
	must.Eventually(t, "the files are those of the job that lives", func() bool {
		files, err := n.cdi.files()
		label, errLabel := os.ReadFile(filepath.Join(n.mapping.dir, "1"))
		_, errGone := os.Stat(filepath.Join(n.mapping.dir, "0"))
		return errors.Join(err, errLabel) == nil && slices.Equal(files, []string{n.cdi.file("2.srv")}) &&
			string(label) == "2.srv\n" && errors.Is(errGone, fs.ErrNotExist)
	})
}

// The list that OpenPBS ships never opens a device that is given to jobs, whenever the device is
// found. The administrator is told about that, but about nothing else.
func TestAllowThatReopens(t *testing.T) {
	const want = `devices.allow: "c *:* rwm" would let every job open /dev/nvidia0 (c 195:0), which is ngpus ` +
		"GPU-00000000-0000-0000-0000-000000000000" +
		`: left out: ["c *:* rwm"]`
	none := &inventory.Inventory{Sources: []inventory.Source{{Name: "nvidia"}, {Name: "amd"}}}
	n := newNode(t, 0, none, func(f *config.File) { f.Devices.Allow = []any{"b *:* rwm", "c *:* rwm"} })
	n.do(hostapi.EventStartup) // no device is given to jobs
	n.job("1.srv")
	n.do(hostapi.EventBegin, "1.srv")
	if strings.Contains(n.logged.String(), "left out") {
		t.Errorf("logged %q", n.logged.String())
	}
	n.finds(eight())
	n.do(hostapi.EventPeriodic) // it may find them immediately
	must.Eventually(t, "the new devices are found", func() bool { return len(n.keeper.current().Devices) == 8 })
	j := n.job("2.srv", a100(3))
	for _, e := range []hostapi.Event{hostapi.EventStartup, hostapi.EventPeriodic, hostapi.EventBegin,
		hostapi.EventLaunch} {
		n.do(e, "2.srv")
	}
	n.wantGPUs("with the devices", j, 3)
	if got := n.opens(j, topology.DeviceNode{Path: "/dev/loop0", Block: true, Major: 7},
		unix.O_RDONLY); got == unix.EPERM {
		t.Errorf("loop0, by the entry that stays: %v", got)
	}
	must.Eventually(t, "it was logged", func() bool { return strings.Contains(n.logged.String(), "left out") })
	if got := strings.Count(n.logged.String(), "left out"); got != 1 {
		t.Errorf("logged %d times: %s", got, n.logged.String())
	}
	h, err := n.boot() // with the devices of the last scan
	must.NoError(t, err)
	n.hook = h
	n.do(hostapi.EventStartup, "2.srv")
	if inv, err := inventory.Load(n.state); err != nil || sourceOf(inv, allowSource).Note != want {
		t.Errorf("doctor sees %+v, %v, want %s", inv, err, want)
	}
	// The GPUs disappear.
	n.finds(none)
	n.do(hostapi.EventStartup)
	if inv, err := inventory.Load(n.state); err != nil || sourceOf(inv, allowSource).Note != "" {
		t.Errorf("doctor sees %+v, %v", inv, err)
	}
}

// While the inventory cannot be written, hook cgroup uses an old one. That is reported, and the
// write is retried.
func TestStoreFails(t *testing.T) {
	n := newNode(t, 0, eight(), nil)
	file := filepath.Join(n.state, "devices.json")
	if err := os.Mkdir(file, 0o755); err != nil { // a directory in place of the file
		t.Fatal(err)
	}
	for _, e := range []hostapi.Event{hostapi.EventStartup, hostapi.EventPeriodic} {
		if _, err := n.event(e); hostapi.KindOf(err) != hostapi.KindNode ||
			!strings.Contains(err.Error(), "hook cgroup cannot read the inventory") {
			t.Errorf("%s: %v", e, err)
		}
	}
	must.NoError(t, os.Remove(file))
	n.do(hostapi.EventPeriodic)
	if inv, err := inventory.Load(n.state); err != nil || len(inv.Devices) != 8 {
		t.Errorf("%+v, %v", inv, err)
	}
}

// However long a driver takes, startup ends.
func TestStartupIsBounded(t *testing.T) {
	n := newNode(t, 0, eight(), func(f *config.File) { f.Devices.ProbeTimeout = config.Duration(time.Hour) })
	n.keeper.scan = func(ctx context.Context) *inventory.Inventory { <-ctx.Done(); return eight() }
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := n.ExechostStartup(ctx, &hostapi.Request{Event: hostapi.EventStartup, Node: testNode}); err != nil {
		t.Error(err)
	}
	if ctx.Err() != nil {
		t.Error("startup has waited until its alarm")
	}
	if inv := n.keeper.current(); inv == nil || !failed(inv) {
		t.Errorf("inventory %+v, want one that says that the scan goes on", inv)
	}
}

// A library that hangs does not delay any event, whether it is finding devices or reading counters.
func TestHangingNVML(t *testing.T) {
	n := newNode(t, 0, eight(), func(f *config.File) {
		f.Devices.ProbeTimeout = config.Duration(100 * time.Millisecond)
	})
	n.do(hostapi.EventStartup)
	hangs := make(chan struct{})
	defer close(hangs)
	n.keeper.scan = func(ctx context.Context) *inventory.Inventory {
		select {
		case <-hangs:
		case <-ctx.Done():
		}
		return eight()
	}
	program := filepath.Join(t.TempDir(), "nvml")
	must.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755))
	n.ask = func(ctx context.Context, limit time.Duration, uuids ...string) (*inventory.NVIDIAUsage, error) {
		return inventory.AskNVMLUsage(ctx, program, limit, uuids...)
	}
	n.finds(eight())
	n.do(hostapi.EventStartup) // waits for probe_timeout
	if inv := n.keeper.current(); len(inv.Devices) != 8 || !failed(inv) {
		t.Errorf("while a scan hangs: %d devices, sources %+v", len(inv.Devices), inv.Sources)
	}
	kept, err := inventory.Load(n.state)
	if err != nil || !failed(kept) {
		t.Errorf("doctor sees %+v, %v", kept, err)
	}
	n.job("1.srv", a100(0))
	events := func() time.Duration {
		start := time.Now()
		n.do(hostapi.EventPeriodic)
		n.do(hostapi.EventBegin, "1.srv")
		n.do(hostapi.EventLaunch, "1.srv")
		return time.Since(start)
	}
	if took := events(); took > 20*time.Second { // of the 1000 that the program sleeps
		t.Errorf("events took %v", took)
	} else {
		t.Logf("periodic, begin and launch took %v", took)
	}
	// The epilogue waits a second for it.
	if out := n.do(hostapi.EventEpilogue, "1.srv"); len(out.Usage.Devices) != 1 ||
		out.Usage.Devices[0].UtilizationPercent != nil {
		t.Errorf("epilogue: %+v", out.Usage)
	}
}

// If the host cannot be divided into blocks, PBS and doctor are told that there are none, until it
// can.
func TestBlocksThatCannotBeCut(t *testing.T) {
	n := newNode(t, 0, eight(), func(f *config.File) { f.Devices.Blocks = 3 })
	noted := func() string {
		inv, err := inventory.Load(n.state)
		must.NoError(t, err)
		return sourceOf(inv, blocksSource).Note
	}
	for range 2 {
		out := n.do(hostapi.EventStartup)
		if got := out.Vnodes[testNode].ResourcesAvailable["blocks"]; got != "0" {
			t.Errorf("PBS is told of %q blocks", got)
		}
	}
	n.do(hostapi.EventPeriodic)
	if got := noted(); !strings.HasPrefix(got, "jobs get no blocks: cut node into 3 blocks: it") {
		t.Errorf("noted %q", got)
	}
	if got := strings.Count(n.logged.String(), "jobs get no blocks"); got != 1 {
		t.Errorf("logged %d times: %s", got, n.logged.String())
	}
	n.policy.Devices.Blocks = 1 // the configuration of the next hook
	if out := n.do(hostapi.EventStartup); out.Vnodes[testNode].ResourcesAvailable["blocks"] != "1" || noted() != "" {
		t.Errorf("PBS is told %v, and noted is %q", out.Vnodes[testNode], noted())
	}
}

// At the first start with a driver that hangs, a list that opens everything does not open GPUs, and
// doctor says so. The rest of the list is open once the devices are known.
func TestWildcardWhileDriverHangs(t *testing.T) {
	onModes(t, func(t *testing.T, mode cgroup.Mode) {
		n := newNode(t, mode, eight(), func(f *config.File) {
			f.Devices.Allow = []any{"c 1:* r", "c *:* rw"}
			f.Devices.ProbeTimeout = config.Duration(100 * time.Millisecond)
		})
		answers := make(chan struct{})
		scan := n.keeper.scan
		n.keeper.scan = func(ctx context.Context) *inventory.Inventory {
			select {
			case <-answers:
			case <-ctx.Done():
			}
			return scan(ctx)
		}
		n.do(hostapi.EventStartup)
		j := n.job("1.srv")
		n.do(hostapi.EventBegin, "1.srv")
		for _, tt := range []struct {
			node topology.DeviceNode
			want bool
		}{
			{a100(0).Nodes[0], false},
			{topology.DeviceNode{Path: "/dev/dri/renderD128", Major: 226, Minor: 128}, false},
			{topology.DeviceNode{Path: "/dev/local", Major: 120, Minor: 1}, false},
			{topology.DeviceNode{Path: "/dev/null", Major: 1, Minor: 3}, true},
		} {
			if got := n.opens(j, tt.node, unix.O_RDONLY); (got != unix.EPERM) != tt.want {
				t.Errorf("while the driver hangs: open %s: %v", tt.node.Path, got)
			}
		}
		const want = `"c *:* rw" may let every job open GPUs that are not known (no result within 100ms; the scan continues): left out: ["c *:* rw"]`
		if inv, err := inventory.Load(n.state); err != nil || !strings.HasSuffix(sourceOf(inv, allowSource).Note,
			want) {
			t.Errorf("doctor sees %+v, %v", inv, err)
		}
		n.found.Store(&inventory.Inventory{Sources: []inventory.Source{{Name: "nvml"}, {Name: "amd"}}}) // none exist
		close(answers)
		must.Eventually(t, "the devices are known", func() bool {
			return sourceOf(n.keeper.current(),
				lateSource).Error == ""
		})
		n.do(hostapi.EventLaunch, "1.srv")
		if got := n.opens(j, topology.DeviceNode{Path: "/dev/local", Major: 120, Minor: 1},
			unix.O_RDONLY); got == unix.EPERM {
			t.Errorf("afterwards: %v", got)
		}
	})
}

// PBS is told when the number of devices has changed, and not before.
func TestPeriodicPublishes(t *testing.T) {
	n := newNode(t, 0, eight(), nil)
	n.do(hostapi.EventStartup)
	if out := n.do(hostapi.EventPeriodic); out.Vnodes != nil {
		t.Errorf("nothing has changed, and PBS is told %v", out.Vnodes)
	}
	seven := eight()
	seven.Devices = seven.Devices[:7]
	n.finds(seven)
	told := n.do(hostapi.EventPeriodic).Vnodes // the scan runs in the background, and may already be over
	must.Eventually(t, "seven devices", func() bool { return len(n.keeper.current().Devices) == 7 })
	if told == nil {
		told = n.do(hostapi.EventPeriodic).Vnodes
	}
	if told == nil || told[testNode].ResourcesAvailable["ngpus"] != "7" {
		t.Errorf("vnodes %v, want 7", told)
	}
	must.Eventually(t, "hook cgroup reads of seven", func() bool {
		inv, err := inventory.Load(n.state)
		return err == nil && len(inv.Devices) == 7
	})
	if out := n.do(hostapi.EventPeriodic); out.Vnodes != nil {
		t.Errorf("PBS is told twice: %v", out.Vnodes)
	}
}

// At startup, files of jobs that are gone are removed. Those of live jobs stay, whether listed or
// not.
func TestStartupSweeps(t *testing.T) {
	n := newNode(t, 0, eight(), nil)
	n.do(hostapi.EventStartup)
	n.job("1.srv", a100(0))
	n.do(hostapi.EventBegin, "1.srv")
	n.job("2.srv", a100(1))
	n.do(hostapi.EventBegin, "2.srv")
	gone := &inventory.Grant{Devices: []topology.Device{a100(0), a100(7)}}
	must.NoError(t, errors.Join(n.cdi.write("3.srv", gone, nil), n.mapping.write(t.Context(), "3.srv", gone)))
	foreign := filepath.Join(n.cdi.dir, "nvidia.json")
	must.NoError(t, os.WriteFile(foreign, []byte("{}"), 0o644))
	unfinished := []string{}
	for _, dir := range []string{n.state, n.cdi.dir, n.mapping.dir} {
		name := filepath.Join(dir, ".hookhost-1.tmp")
		must.NoError(t, os.WriteFile(name, nil, 0o600))
		must.NoError(t, os.Chtimes(name, time.Unix(0, 0), time.Unix(0, 0)))
		unfinished = append(unfinished, name)
	}
	n.do(hostapi.EventStartup, "1.srv")
	for _, name := range unfinished {
		if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s, which a crash has left: %v", name, err)
		}
	}
	files, err := n.cdi.files()
	if diff := cmp.Diff([]string{n.cdi.file("1.srv"), n.cdi.file("2.srv")}, files); diff != "" || err != nil {
		t.Errorf("CDI files, %v: -want +got:\n%s", err, diff)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
	n.wantMapping(map[string]string{"0": "1.srv\n", "1": "2.srv\n"})
}

// If files cannot be removed, the hook still does everything else.
func TestSweepFails(t *testing.T) {
	n := newNode(t, 0, eight(), nil)
	if err := os.WriteFile(n.mapping.dir, nil, 0o644); err != nil { // a file in place of the directory
		t.Fatal(err)
	}
	if out := n.do(hostapi.EventStartup); out.Vnodes == nil {
		t.Error("PBS is not told of the devices")
	}
	if !strings.Contains(n.logged.String(), "job mapping") {
		t.Errorf("logged %q", n.logged.String())
	}
}

// The program is started as hookhost starts it, with devices described by an administrator.
func TestConfiguredDevice(t *testing.T) {
	n := newNode(t, 0, &inventory.Inventory{}, nil)
	config := `{"cgroup":{"prefix":"` + n.policy.Cgroup.Prefix + `"},"devices":{"discover_gpus":false,"cdi_dir":"` +
		n.cdi.dir + `"},` +
		`"device":[{"resource":"fpga","paths":["/dev/kmsg"],"env":{"FPGA":"{path}"}}]}`
	h, err := hooktest.Try(t, func(s *hostapi.Setup) (any, error) {
		made, err := newHook(s)
		if h, ok := made.(*hook); ok {
			life, end := context.WithCancel(context.Background())
			h.life = life
			t.Cleanup(func() { end(); h.background.Wait() })
		}
		return made, err
	}, hostapi.SetupData{Config: []byte(config), Host: map[string]string{"state_dir": n.state}})
	must.NoError(t, err)
	must.Equal(t, "events", []hostapi.Event{hostapi.EventBegin, hostapi.EventLaunch, hostapi.EventResize,
		hostapi.EventAbort,
		hostapi.EventEpilogue, hostapi.EventEnd, hostapi.EventStartup, hostapi.EventPeriodic}, h.Events())
	call := func(e hostapi.Event) *hostapi.Outcome {
		t.Helper()
		req := &hostapi.Request{Event: e, Node: testNode}
		if e.ForJob() {
			req.Job = &hostapi.Job{ID: "1.srv"}
		}
		out, err := h.Call(t.Context(), req)
		if err != nil {
			t.Fatalf("%s: %v", e, err)
		}
		return out
	}
	out := call(hostapi.EventStartup)
	must.Equal(t, "resources_available", hostapi.Resources{"fpga": "1"}, out.Vnodes[testNode].ResourcesAvailable)
	inv, err := inventory.Load(n.state)
	if err != nil || len(inv.Devices) != 1 {
		t.Fatalf("inventory %+v, %v", inv, err)
	}
	kmsg := inv.Devices[0].Nodes[0]
	with, without := n.job("1.srv", inv.Devices[0]), n.job("2.srv")
	call(hostapi.EventBegin)
	if env := call(hostapi.EventLaunch).SetEnv; env["FPGA"] != "/dev/kmsg" {
		t.Errorf("environment %v", env)
	}
	n.do(hostapi.EventBegin, "2.srv")
	if a, b := n.opens(with, kmsg, unix.O_RDONLY), n.opens(without, kmsg, unix.O_RDONLY); a != 0 || b != unix.EPERM {
		t.Errorf("with it: %v, without: %v, want no error and EPERM", a, b)
	}
	call(hostapi.EventEnd)
}
