package placement

import "slices"

// share is the number of units that a job takes from a leaf.
type share struct {
	leaf *leaf
	n    int
}

// choose returns where to take n units, which the machine must have. If the job has devices, the
// units are near them where possible.
func (m *machine) choose(n int) []share {
	switch {
	case n == 0:
		return nil
	case len(m.near) > 0:
		return m.nearest(n)
	}
	return m.anywhere(n)
}

// anywhere returns where to take n units. It prefers parts of the machine that also have room for
// the job's memory.
func (m *machine) anywhere(n int) []share {
	for _, fits := range []func([]*leaf) bool{m.hasRoom, func([]*leaf) bool { return true }} {
		if shares := m.within(n, fits); shares != nil {
			return shares
		}
	}
	return m.span(m.leaves, n)
}

// within returns where to take n units so that they lie in a small part of the machine. It tries
// whole sockets, whole NUMA nodes of one socket, a single NUMA node and a single socket. It returns
// nil if none of these has the units and satisfies fits.
func (m *machine) within(n int, fits func([]*leaf) bool) []share {
	if whole := exactly(m.sockets, n, fits); whole != nil {
		return whole
	}
	sockets := ranked(m.sockets, func(a, b *socket) bool { return m.req.Policy.better(n, a.domain, b.domain) })
	for _, s := range sockets {
		parts := make([]*socket, len(s.leaves))
		for i, l := range s.leaves {
			parts[i] = &socket{domain: l.domain, leaves: s.leaves[i : i+1]}
		}
		if whole := exactly(parts, n, fits); whole != nil {
			return whole
		}
	}
	// Of two equal leaves, the one in the better socket comes first.
	var leaves []*leaf
	for _, s := range sockets {
		leaves = append(leaves, s.leaves...)
	}
	for _, l := range ranked(leaves, func(a, b *leaf) bool { return m.req.Policy.better(n, a.domain, b.domain) }) {
		if l.free >= n && fits([]*leaf{l}) {
			return []share{{l, n}}
		}
	}
	for _, s := range sockets {
		if s.free >= n && fits(s.leaves) {
			return m.span(s.leaves, n)
		}
	}
	return nil
}

// exactly returns unused parts that together have exactly n units: one part, or several, the
// largest first. It prefers parts with few devices, because no other job could then use cpus near
// those.
func exactly(parts []*socket, n int, fits func([]*leaf) bool) []share {
	var whole []*socket
	for _, p := range ranked(parts, func(a, b *socket) bool { return a.devices < b.devices }) {
		if !p.whole() || p.total > n {
			continue
		}
		if p.total == n && fits(p.leaves) {
			return all(p.leaves)
		}
		whole = append(whole, p)
	}
	var leaves []*leaf
	for _, p := range ranked(whole, func(a, b *socket) bool { return a.total > b.total }) {
		if p.total <= n {
			n -= p.total
			leaves = append(leaves, p.leaves...)
		}
	}
	if n > 0 || !fits(leaves) {
		return nil
	}
	return all(leaves)
}

// all takes every free unit of leaves.
func all(leaves []*leaf) []share {
	var shares []share
	for _, l := range leaves {
		if l.free > 0 {
			shares = append(shares, share{l, l.free})
		}
	}
	return shares
}

// span takes n units from as few leaves as possible. It takes all of the largest leaf until one
// leaf can provide the rest. Among equal leaves it prefers the sockets that it already uses.
func (m *machine) span(leaves []*leaf, n int) []share {
	var shares []share
	rest := slices.Clone(leaves)
	for n > 0 {
		rest = ranked(rest, func(a, b *leaf) bool { return precedes(m.req.Policy, shares, n, a, b) })
		l := rest[0]
		k := min(n, l.free)
		shares = append(shares, share{l, k})
		n -= k
		rest = rest[1:]
	}
	return shares
}

// precedes orders leaves for span, which has chosen shares and needs n more units.
func precedes(policy Policy, shares []share, n int, a, b *leaf) bool {
	finishes := a.free >= n
	if finishes != (b.free >= n) {
		return finishes
	}
	if !finishes && a.free != b.free {
		return a.free > b.free
	}
	near := func(l *leaf) bool {
		return slices.ContainsFunc(shares, func(s share) bool { return s.leaf.socket == l.socket })
	}
	if near(a) != near(b) {
		return near(a)
	}
	return policy.better(n, a.domain, b.domain)
}

// ranked returns a sorted copy of items; equal items keep their order.
func ranked[T any](items []T, before func(a, b T) bool) []T {
	sorted := slices.Clone(items)
	slices.SortStableFunc(sorted, func(a, b T) int {
		switch {
		case before(a, b):
			return -1
		case before(b, a):
			return 1
		}
		return 0
	})
	return sorted
}
