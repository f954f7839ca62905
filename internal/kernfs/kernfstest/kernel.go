// Package kernfstest is a fake kernel in memory: cgroup hierarchies, processes, /proc and /sys, as
// a kernfs.Backend.
//
// The fake follows the kernel's rules, so code that passes here also passes on a kernel. A cgroup
// has the interface files of its controllers, which check, round and refuse values with the
// kernel's errno. Limits take effect (Charge, Fork), and rmdir of a populated cgroup is EBUSY. Each
// rule names its source: a kernel document (cgroup-v1/*.rst, cgroup-v2.rst) or the kernel function.
//
// An interface file exists here only if code other than tests reads or writes it. Names, texts and
// defaults are those of Linux 6.18. Tests try the same rules on the fake and on the running kernel.
//
// Tests cause the events of a machine: Spawn, Fork, Exit, Burn, Charge. Fake process ids are above
// the kernel's greatest pid_max, so a kill(2) that reaches one by mistake finds no process.
package kernfstest

import (
	"sync"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Kernel is a fake kernel, safe for concurrent use.
type Kernel struct {
	mu          sync.Mutex
	machine     Machine
	without     []string
	options     []string // mount options of the v2 tree
	top         string   // file system type of /sys/fs/cgroup: "tmpfs" or "cgroup2"
	hierarchies []*hierarchy
	links       map[string]string // of the tmpfs: cpu -> cpu,cpuacct
	procs       map[int]*process
	lastPID     int
	clock       uint64 // jiffies since boot, for start times
	self        int
	journal     []Op
	faults      []*fault
	changed     chan struct{} // closed at each change
	watches     map[*watch]bool
	dirty       bool              // page cache cannot be reclaimed
	procFiles   map[string]string // files of /proc that no process changes
	sys         tree
}

// Option changes the kernel that New* creates.
type Option func(*Kernel)

// Mounted mounts the v2 tree with options, as an init system does.
func Mounted(options ...string) Option { return func(k *Kernel) { k.options = options } }

// Without removes controllers ("pids"), interface files ("cgroup.kill") or groups of them
// ("memory.memsw"), as on an older or differently configured kernel. "swap" is the swap accounting
// of both versions.
func Without(names ...string) Option {
	return func(k *Kernel) { k.without = append(k.without, names...) }
}

// On replaces the default machine.
func On(m Machine) Option { return func(k *Kernel) { k.machine = m } }

// NewV1 returns a kernel with every controller on v1 and no v2 tree, mounted as in systemd's legacy
// mode. cpu and cpuacct share a hierarchy, with links to it, and systemd has a named one.
func NewV1(opts ...Option) *Kernel {
	k := newKernel("tmpfs", opts)
	k.mount("systemd", "name=systemd")
	k.mount("cpuset", "cpuset")
	k.mount("cpu,cpuacct", "cpu", "cpuacct")
	k.mount("blkio", "blkio")
	k.mount("memory", "memory")
	k.mount("devices", "devices")
	k.mount("freezer", "freezer")
	k.mount("hugetlb", "hugetlb")
	k.mount("pids", "pids")
	k.mount("net_cls,net_prio", "net_cls", "net_prio")
	k.mount("perf_event", "perf_event")
	k.mount("rdma", "rdma")
	k.links = map[string]string{"cpu": "cpu,cpuacct", "cpuacct": "cpu,cpuacct"}
	return k.boot()
}

// NewHybrid returns a kernel with most controllers on v1, each in a separate hierarchy. The v2 tree
// at /sys/fs/cgroup/unified has only hugetlb.
func NewHybrid(opts ...Option) *Kernel {
	k := newKernel("tmpfs", opts)
	for _, c := range []string{"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids"} {
		k.mount(c, c)
	}
	k.mount("systemd", "name=systemd")
	k.mount2("unified", "hugetlb")
	return k.boot()
}

// NewV2 returns a kernel with the v2 tree at /sys/fs/cgroup and every controller in it. The root's
// cgroup.subtree_control is empty, as after boot.
func NewV2(opts ...Option) *Kernel {
	k := newKernel("cgroup2", opts)
	k.mount2("", "cpuset", "cpu", "io", "memory", "hugetlb", "pids", "rdma")
	return k.boot()
}

func newKernel(top string, opts []Option) *Kernel {
	k := &Kernel{
		machine: DefaultMachine,
		top:     top,
		procs:   map[int]*process{},
		lastPID: firstPID,
		clock:   1000,
		changed: make(chan struct{}),
		watches: map[*watch]bool{},
	}
	for _, o := range opts {
		o(k)
	}
	return k
}

func (k *Kernel) boot() *Kernel {
	k.procFiles = k.fixedFiles()
	k.sys = tree{files: k.machine.sysFiles()}
	k.procs[1] = &process{pid: 1, sid: 1, pgid: 1, comm: "init", in: k.roots()}
	for _, g := range k.procs[1].in {
		g.procs[1] = k.procs[1]
	}
	k.self = k.start(k.procs[1], "hookhost").pid
	return k
}

// Roots returns /proc, /sys and /sys/fs/cgroup of k.
func (k *Kernel) Roots() kernfs.Roots {
	return kernfs.Roots{
		Proc:   kernfs.New(&procfs{k}, "/proc"),
		Sys:    kernfs.New(k.sys, "/sys"),
		Cgroup: kernfs.New(&cgroupfs{k}, "/sys/fs/cgroup"),
	}
}

// Self returns the pid of /proc/self.
func (k *Kernel) Self() int { return k.self }

// wake tells all waiters that something has changed.
func (k *Kernel) wake() {
	for w := range k.watches {
		w.notify()
	}
	close(k.changed)
	k.changed = make(chan struct{})
}
