package placement

import "slices"

// share is how many units a job takes from a leaf.
type share struct {
	leaf *leaf
	n    int
}

// choose returns where to take n units from; the machine has them. A job with devices is near to
// them where that is possible.
func (m *machine) choose(n int) []share {
	switch {
	case n == 0:
		return nil
	case len(m.near) > 0:
		return m.nearest(n)
	}
	return m.anywhere(n)
}

// anywhere returns where to take n units from. Parts that also have room for the job's memory go
// before any part that has not.
func (m *machine) anywhere(n int) []share {
	for _, fits := range []func([]*leaf) bool{m.hasRoom, func([]*leaf) bool { return true }} {
		if shares := m.within(n, fits); shares != nil {
			return shares
		}
	}
	return m.span(m.leaves, n)
}

// within returns where to take n units from so that they lie in a small part of the machine. The
// parts are whole sockets, whole NUMA nodes of one socket, one NUMA node or one socket. within
// returns nil when there is no such part among those that fit.
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
	// Sockets go first: the leaf in the better socket comes before an equal one.
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

// exactly returns parts without any job that together have just n units: one, or several taken
// largest first. Parts with few devices come first, since nobody would be near to those.
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

// all takes everything that leaves have.
func all(leaves []*leaf) []share {
	var shares []share
	for _, l := range leaves {
		if l.free > 0 {
			shares = append(shares, share{l, l.free})
		}
	}
	return shares
}

// span takes n units from as few of leaves as possible: all of the largest until one can give the
// rest. Among equals it stays in the sockets it is in already.
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

// precedes orders leaves for span, which needs n more units and has shares.
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

// ranked returns a sorted copy of items; those that are equal keep their order.
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
