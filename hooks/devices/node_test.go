package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/devrule"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc/proctest"
	"github.com/hookhost/hookhost/internal/topology"
)

const testNode = "node1"

// node is a hook on this machine's kernel, with an inventory of devices that this machine does not
// have.
type node struct {
	*hook
	t     testing.TB
	roots kernfs.Roots
	dev   string // where device nodes are created
	state string
	found atomic.Pointer[inventory.Inventory]
	boot  func() (*hook, error)
	// nodes are the nodes in /dev in addition to those of the base list, by name.
	nodes  atomic.Pointer[map[string]devrule.Node]
	logged lockedBuffer
}

func (n *node) lookup(name string) ([]devrule.Node, error) {
	var list []devrule.Node
	if nodes := n.nodes.Load(); nodes != nil {
		for have, node := range *nodes {
			if ok, err := path.Match(name, have); err != nil {
				return nil, err
			} else if ok {
				list = append(list, node)
			}
		}
	}
	return list, nil
}

// lockedBuffer holds what was logged.
type lockedBuffer struct {
	sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.String()
}

var prefixes atomic.Int64

// newNode starts a hook that uses only what this machine has in that mode (0: everything). It does
// not send startup.
func newNode(t testing.TB, mode cgroup.Mode, inv *inventory.Inventory, edit func(*config.File)) *node {
	t.Helper()
	kernfstest.NeedRoot(t)
	if mode == cgroup.ModeV1 {
		kernfstest.NeedV1(t, "devices")
	} else {
		kernfstest.NeedV2(t)
	}
	roots, err := kernfs.OpenRoots()
	must.NoError(t, err)
	p, err := newPolicy(nil)
	must.NoError(t, err)
	n := &node{t: t, roots: roots, dev: devDir(t), state: t.TempDir()}
	p.Devices.CDIDir, p.Devices.DCGMDir = filepath.Join(t.TempDir(), "cdi"), filepath.Join(t.TempDir(), "dcgm")
	p.Cgroup.Prefix = fmt.Sprintf("%s_%d", testPrefix(), prefixes.Add(1))
	p.Devices.ProbeTimeout = config.Duration(20 * time.Second)
	if edit != nil {
		edit(&p.File)
	}
	n.found.Store(inv)
	numbering, err := inventory.Numbering(roots)
	must.NoError(t, err)
	numbering = numbering[:1] // the boot
	log := logrus.New()
	log.SetOutput(io.MultiWriter(t.Output(), &n.logged))
	opt := cgroup.Options{Prefix: p.Cgroup.Prefix, Mode: mode}
	n.boot = func() (*hook, error) {
		h, err := open(p, roots, opt, n.state, inventory.Options{}, n.lookup, logrus.NewEntry(log))
		if err != nil {
			return nil, err
		}
		life, end := context.WithCancel(context.Background())
		h.life = life
		h.cdiChanges.patience, h.mappingChanges.patience = time.Minute, time.Minute // on a loaded machine
		h.keeper.scan = func(context.Context) *inventory.Inventory {
			inv := *n.found.Load()
			inv.Numbering = numbering
			return &inv
		}
		t.Cleanup(func() { end(); h.background.Wait() })
		return h, nil
	}
	if n.hook, err = n.boot(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kernfstest.RemoveUnit(t, opt.Prefix) })
	must.NoError(t, n.tree.Prepare())
	return n
}

// finds sets what the next scan finds. A scan that is already running finds what was there before.
func (n *node) finds(inv *inventory.Inventory) {
	n.t.Helper()
	must.Eventually(n.t, "no scan is under way", func() bool { return !n.keeper.scanning() })
	n.found.Store(inv)
}

// devDir creates a directory in which the kernel allows device nodes to be opened.
func devDir(t testing.TB) string {
	t.Helper()
	for _, parent := range []string{t.TempDir(), "/var/tmp", "/dev"} { // systemd mounts /tmp with nodev
		var st unix.Statfs_t
		if err := unix.Statfs(parent, &st); err != nil || st.Flags&unix.ST_NODEV != 0 {
			continue
		}
		dir, err := os.MkdirTemp(parent, testPrefix()+"_")
		must.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		return dir
	}
	kernfstest.Skip(t, "every place for device nodes is mounted with nodev")
	return ""
}

// job makes a job's cgroup with a grant, as hook cgroup does.
func (n *node) job(id string, held ...topology.Device) *cgroup.Job {
	n.t.Helper()
	j := n.bare(id)
	n.grant(j, held...)
	return j
}

// bare makes a job's cgroup without a grant, as hook cgroup does with devices.enabled = false.
func (n *node) bare(id string) *cgroup.Job {
	n.t.Helper()
	j, err := n.tree.Job(id)
	must.NoError(n.t, err)
	must.NoError(n.t, j.Create(cgroup.Limits{}))
	n.t.Cleanup(func() {
		if err := j.Remove(context.Background()); err != nil && !errors.Is(err, cgroup.ErrNotFound) {
			n.t.Error(err)
		}
	})
	return j
}

func (n *node) grant(j *cgroup.Job, held ...topology.Device) {
	n.t.Helper()
	g := &inventory.Grant{Devices: held}
	for _, d := range held {
		if d.Vendor == "nvidia" {
			g.Shared = nvidiaShared
		}
	}
	must.NoError(n.t, g.Mark(j))
}

var methods = map[hostapi.Event]func(*hook, context.Context, *hostapi.Request) (*hostapi.Outcome, error){
	hostapi.EventStartup: (*hook).ExechostStartup, hostapi.EventPeriodic: (*hook).ExechostPeriodic,
	hostapi.EventBegin: (*hook).ExecjobBegin, hostapi.EventLaunch: (*hook).ExecjobLaunch,
	hostapi.EventResize: (*hook).ExecjobResize, hostapi.EventEpilogue: (*hook).ExecjobEpilogue,
	hostapi.EventEnd:   (*hook).ExecjobEnd,
	hostapi.EventAbort: (*hook).ExecjobAbort,
}

// event sends an event of a job, or of the host with a list of jobs.
func (n *node) event(e hostapi.Event, ids ...string) (*hostapi.Outcome, error) {
	req := &hostapi.Request{Event: e, Node: testNode}
	if e.ForJob() {
		req.Job = &hostapi.Job{ID: ids[0]}
	} else {
		req.JobList = map[string]*hostapi.Job{}
		for _, id := range ids {
			req.JobList[id] = &hostapi.Job{ID: id}
		}
	}
	out, err := methods[e](n.hook, n.t.Context(), req)
	if err == nil {
		if err := out.Check(e); err != nil {
			n.t.Errorf("%s: %v", e, err)
		}
	}
	return out, err
}

func (n *node) do(e hostapi.Event, ids ...string) *hostapi.Outcome {
	n.t.Helper()
	out, err := n.event(e, ids...)
	if err != nil {
		n.t.Fatalf("%s %v: %v", e, ids, err)
	}
	return out
}

// mknod creates a device node that a job's processes can try to open.
func (n *node) mknod(node topology.DeviceNode) string {
	n.t.Helper()
	path := filepath.Join(n.dev, fmt.Sprintf("%d_%d", node.Major, node.Minor))
	mode := uint32(unix.S_IFCHR)
	if node.Block {
		mode = unix.S_IFBLK
	}
	if err := unix.Mknod(path, mode|0o666, int(unix.Mkdev(node.Major, node.Minor))); err != nil &&
		!errors.Is(err, fs.ErrExist) {
		n.t.Fatal(err)
	}
	return path
}

// opens tries to open a device from inside the job. EPERM comes from the filter, and ENXIO from a
// number without a driver.
func (n *node) opens(j *cgroup.Job, node topology.DeviceNode, flags int) unix.Errno {
	n.t.Helper()
	spec := &exec.Cmd{Args: []string{"actor", actorArg, n.mknod(node), fmt.Sprint(flags)}}
	p := proctest.Start(n.t, spec, func(pid int) {
		_, err := j.Attach(number(pid), nil)
		must.NoError(n.t, err)
	})
	exit, err := p.Wait(n.t.Context())
	must.NoError(n.t, err)
	return unix.Errno(exit.Code())
}

// number is a process that is not held.
type number int

func (n number) PID() int                    { return int(n) }
func (n number) Signal(syscall.Signal) error { return nil }
