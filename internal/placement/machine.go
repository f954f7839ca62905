package placement

import (
	"cmp"
	"slices"

	"github.com/hookhost/hookhost/internal/topology"
)

// unit is what one of a request's ncpus takes.
type unit int

const (
	firstThread unit = iota // the first thread of an idle core
	anyThread               // a thread
	wholeCore               // all threads of an idle core
)

// core is a core as far as jobs may use it.
type core struct {
	threads []int // allowed cpus, ascending
	free    []int // those of threads that are not taken
	idle    bool  // no thread of the core is taken, not even one that is not allowed
}

// domain counts the units of a part of the machine.
type domain struct {
	total   int // if no job were there
	free    int
	idle    int // those of free that are in cores nobody uses
	devices int // devices that a job can still get, and not this one
}

func (d *domain) add(e domain) {
	d.total += e.total
	d.free += e.free
	d.idle += e.idle
	d.devices += e.devices
}

// whole reports whether no job is in d.
func (d domain) whole() bool { return d.total > 0 && d.free == d.total }

// leaf is the smallest part that is told apart: the cpus of one NUMA node in one socket. Mostly
// that is a NUMA node; where a node spans several sockets it is a socket.
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

// machine is what is free of a node for one request.
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

// group makes a machine of leaves.
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

// only returns the part of m that leaves are.
func (m *machine) only(leaves []*leaf) *machine {
	part := *m
	part.group(leaves)
	return &part
}

// addCores sorts the node's cpus into cores and the cores into leaves.
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

// count returns how many units c has.
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

// appendCPUs appends the cpus of n units of l to cpus: idle cores first, then what is free of the
// others.
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
