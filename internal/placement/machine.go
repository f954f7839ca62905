package placement

import (
	"cmp"
	"slices"

	"github.com/hookhost/hookhost/internal/topology"
)

// unit is what each of a request's ncpus occupies.
type unit int

const (
	firstThread unit = iota // first thread of an idle core
	anyThread               // a thread
	wholeCore               // every thread of an idle core
)

// core is the part of a core that jobs may use.
type core struct {
	threads []int // allowed cpus, ascending
	free    []int // the threads that are not taken
	idle    bool  // no thread of the core is taken, including threads that are not allowed
}

// domain counts the units of a part of the machine.
type domain struct {
	total   int // when no job is there
	free    int
	idle    int // the free ones in cores that nobody uses
	devices int // devices that another job can still get
}

func (d *domain) add(e domain) {
	d.total += e.total
	d.free += e.free
	d.idle += e.idle
	d.devices += e.devices
}

// whole reports whether no job uses d.
func (d domain) whole() bool { return d.total > 0 && d.free == d.total }

// leaf is the smallest part that is considered: the cpus of one NUMA node in one socket. Usually
// that is a NUMA node. If a node spans several sockets, it is a socket.
type leaf struct {
	domain
	numa, socket int
	cores        []*core // ascending by first thread
}

// socket is a socket with its leaves, ascending by NUMA node.
type socket struct {
	domain
	leaves []*leaf
}

// machine is the free part of a node, as one request sees it.
type machine struct {
	domain
	node    *topology.Node
	req     Request
	unit    unit
	leaves  []*leaf // ascending by NUMA node and socket
	sockets []*socket
	near    map[int]int // the job's own devices, by NUMA node
}

func newMachine(node *topology.Node, req Request) *machine {
	m := &machine{node: node, req: req}
	switch {
	case req.UseHyperthreads && req.NCPUsAreCores:
		m.unit = wholeCore
	case req.UseHyperthreads:
		m.unit = anyThread
	}
	m.addCores()
	slices.SortFunc(m.leaves, func(a, b *leaf) int {
		return cmp.Or(cmp.Compare(a.numa, b.numa), cmp.Compare(a.socket, b.socket))
	})
	for _, l := range m.leaves {
		for _, c := range l.cores {
			l.add(c.count(m.unit))
		}
	}
	m.countDevices(nil)
	m.group(m.leaves)
	return m
}

// group builds a machine from leaves.
func (m *machine) group(leaves []*leaf) {
	m.leaves, m.sockets, m.domain = leaves, nil, domain{}
	bySocket := map[int]*socket{}
	for _, l := range leaves {
		s := bySocket[l.socket]
		if s == nil {
			s = &socket{}
			bySocket[l.socket] = s
			m.sockets = append(m.sockets, s)
		}
		s.leaves = append(s.leaves, l)
		s.add(l.domain)
		m.add(l.domain)
	}
}

// only returns the part of m that consists of leaves.
func (m *machine) only(leaves []*leaf) *machine {
	part := *m
	part.group(leaves)
	return &part
}

// addCores groups the node's cpus into cores and the cores into leaves.
func (m *machine) addCores() {
	type place struct{ numa, socket int }
	leaves := map[place]*leaf{}
	cores := make(map[int]*core, len(m.node.CPUs))
	for _, cpu := range m.node.CPUs {
		c := cores[cpu.Core]
		if c == nil {
			c = &core{threads: make([]int, 0, m.node.Threads), free: make([]int, 0, m.node.Threads), idle: true}
			cores[cpu.Core] = c
			at := place{cpu.NUMA, cpu.Socket}
			l := leaves[at]
			if l == nil {
				l = &leaf{numa: cpu.NUMA, socket: cpu.Socket}
				leaves[at] = l
				m.leaves = append(m.leaves, l)
			}
			l.cores = append(l.cores, c)
		}
		taken := m.req.Taken.Has(cpu.ID)
		c.idle = c.idle && !taken
		if m.req.Allowed.Has(cpu.ID) {
			c.threads = append(c.threads, cpu.ID)
			if !taken {
				c.free = append(c.free, cpu.ID)
			}
		}
	}
}

// count returns the number of units in c.
func (c *core) count(u unit) domain {
	d := domain{total: len(c.threads), free: len(c.free)}
	if u != anyThread {
		d.total = min(d.total, 1)
		d.free = 0
		if c.idle {
			d.free = d.total
		}
	}
	if c.idle {
		d.idle = d.free
	}
	return d
}

// appendCPUs appends the cpus of n units of l to cpus. Idle cores come first, then free threads of
// the other cores.
func (l *leaf) appendCPUs(cpus []int, n int, u unit) []int {
	for _, idle := range []bool{true, false} {
		for _, c := range l.cores {
			if n == 0 {
				return cpus
			}
			units := c.count(u).free
			if c.idle != idle || units == 0 {
				continue
			}
			k := min(n, units)
			n -= k
			if u == wholeCore {
				k = len(c.threads)
			}
			cpus = append(cpus, c.free[:k]...)
		}
	}
	return cpus
}
