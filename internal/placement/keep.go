package placement

import (
	"slices"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/topology"
)

// replace chooses cpus for a job that already has some. A job that asks for fewer gets them from
// among its cpus. If it needs as many or more, it keeps all of them, and the additional ones are as
// near to them as possible. ok is false if the job cannot keep any cpu of Keep. The request is then
// handled like any other.
func replace(node *topology.Node, req Request, m *machine) (a Assignment, ok bool) {
	kept, n := m.kept()
	if n == 0 {
		return Assignment{}, false
	}
	if req.NCPUs <= n {
		inside := req
		inside.Allowed = kept
		own := newMachine(node, inside)
		own.near = m.near
		shares := own.choose(req.NCPUs)
		return Assignment{CPUs: own.cpusOf(shares), Mems: m.mems(shares)}, true
	}
	rest := req.NCPUs - n
	if m.unit == anyThread { // on a core that only this job uses, a second thread disturbs nobody
		more := m.siblings(kept, rest)
		kept, rest = kept.Union(more), rest-more.Len()
	}
	beside := req
	beside.Taken = req.Taken.Union(kept)
	around := newMachine(node, beside)
	shares := around.around(kept, rest)
	cpus := around.cpusOf(shares).Union(kept)
	return Assignment{CPUs: cpus, Mems: m.mems(append(around.at(kept), shares...))}, true
}

// kept returns the cpus of Keep that are available as whole units, and the number of units.
func (m *machine) kept() (cpus kernfs.IDSet, n int) {
	var ids []int
	for _, l := range m.leaves {
		for _, c := range l.cores {
			mine := slices.DeleteFunc(slices.Clone(c.free), func(id int) bool { return !m.req.Keep.Has(id) })
			switch {
			case len(mine) == 0:
			case m.unit == anyThread:
				ids, n = append(ids, mine...), n+len(mine)
			case !c.idle:
			case m.unit == wholeCore:
				ids, n = append(ids, c.threads...), n+1
			default:
				ids, n = append(ids, mine[0]), n+1
			}
		}
	}
	return kernfs.IDs(ids...), n
}

// siblings returns up to n free threads of cores that only the job with the cpus kept uses.
func (m *machine) siblings(kept kernfs.IDSet, n int) kernfs.IDSet {
	var ids []int
	for _, l := range m.leaves {
		for _, c := range l.cores {
			if !c.idle || !slices.ContainsFunc(c.free, kept.Has) {
				continue
			}
			for _, id := range c.free {
				if len(ids) < n && !kept.Has(id) {
					ids = append(ids, id)
				}
			}
		}
	}
	return kernfs.IDs(ids...)
}

// around returns where to take n units, as near to the cpus kept as possible. It tries the same
// leaves first, then the same sockets, then the rest.
func (m *machine) around(kept kernfs.IDSet, n int) []share {
	own, near := map[*leaf]bool{}, map[int]bool{}
	for _, s := range m.at(kept) {
		own[s.leaf], near[s.leaf.socket] = true, true
	}
	var shares []share
	for _, within := range []func(*leaf) bool{
		func(l *leaf) bool { return own[l] },
		func(l *leaf) bool { return !own[l] && near[l.socket] },
		func(l *leaf) bool { return !near[l.socket] },
	} {
		var leaves []*leaf
		free := 0
		for _, l := range m.leaves {
			if within(l) {
				leaves, free = append(leaves, l), free+l.free
			}
		}
		k := min(n, free)
		shares = append(shares, m.span(leaves, k)...)
		n -= k
	}
	return shares
}

// at returns the leaves that contain cpus, with nothing to take from them.
func (m *machine) at(cpus kernfs.IDSet) []share {
	var shares []share
	for _, l := range m.leaves {
		if slices.ContainsFunc(l.cores, func(c *core) bool { return slices.ContainsFunc(c.threads, cpus.Has) }) {
			shares = append(shares, share{leaf: l})
		}
	}
	return shares
}
