// Package kernfstest is a kernel in memory: cgroup hierarchies, processes, /proc and /sys, behind
// kernfs.Backend.
//
// The fake obeys the kernel's rules, so that code which passes here passes on a kernel. A cgroup
// has interface files of its controllers, which check, round and refuse values with the kernel's
// errno. Limits bite (Charge, Fork), and rmdir of a populated cgroup is EBUSY. Each rule names its
// source: a kernel document (cgroup-v1/*.rst, cgroup-v2.rst) or the kernel function.
//
// An interface file is here only if code outside of tests reads or writes it. Names, texts and
// defaults are those of Linux 6.18. Tests try the same rules on the fake and on the running kernel.
//
// Events of a machine happen on request here: Spawn, Fork, Exit, Burn, Charge. Fake process ids are
// above the kernel's greatest pid_max, so that a kill(2) which strays to one finds no process.
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
	options     []string // of the v2 tree's mount
	top         string   // what /sys/fs/cgroup is: "tmpfs" or "cgroup2"
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
	procFiles   map[string]string // of /proc, that no process changes
	sys         tree
}

// Option changes what kernel New* makes.
type Option func(*Kernel)

// Mounted has the v2 tree mounted with options, as an init system does.
func Mounted(options ...string) Option { return func(k *Kernel) { k.options = options } }

// Without removes controllers ("pids"), interface files ("cgroup.kill") or groups of them
// ("memory.memsw"), as an older kernel or another configuration has it. "swap" is the swap
// accounting of both versions.
func Without(names ...string) Option {
	return func(k *Kernel) { k.without = append(k.without, names...) }
}

// On replaces the default machine.
func On(m Machine) Option { return func(k *Kernel) { k.machine = m } }

// NewV1 returns a kernel with every controller on v1 and no v2 tree, mounted as systemd does in its
// legacy mode. cpu and cpuacct are together, with links to them, and systemd has a named hierarchy.
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

// NewHybrid returns a kernel with most controllers on v1, each in a hierarchy of its own. The v2
// tree at /sys/fs/cgroup/unified has only hugetlb.
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
// cgroup.subtree_control is empty, as a kernel boots.
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

// Roots returns the doors to /proc, /sys and /sys/fs/cgroup of k.
func (k *Kernel) Roots() kernfs.Roots {
	return kernfs.Roots{
		Proc:   kernfs.New(&procfs{k}, "/proc"),
		Sys:    kernfs.New(k.sys, "/sys"),
		Cgroup: kernfs.New(&cgroupfs{k}, "/sys/fs/cgroup"),
	}
}

// Self returns the process that /proc/self is.
func (k *Kernel) Self() int { return k.self }

// wake tells everyone who waits that something changed.
func (k *Kernel) wake() {
	for w := range k.watches {
		w.notify()
	}
	close(k.changed)
	k.changed = make(chan struct{})
}
