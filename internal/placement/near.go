package placement

import "slices"

// nearest returns where to take n units for a job with devices. It tries the NUMA nodes of the
// devices, then their sockets, then the whole machine. A device that is far away is better than a
// job that waits.
func (m *machine) nearest(n int) []share {
	var own, beside []*leaf
	sockets := map[int]bool{}
	for _, l := range m.leaves {
		if m.near[l.numa] > 0 {
			own = append(own, l)
			sockets[l.socket] = true
		}
	}
	if nodes := m.only(own); nodes.free >= n {
		return nodes.divided(n)
	}
	for _, l := range m.leaves {
		if sockets[l.socket] {
			beside = append(beside, l)
		}
	}
	if whole := m.only(beside); whole.free >= n {
		return whole.anywhere(n)
	}
	return m.anywhere(n)
}

// divided returns where to take n units if every NUMA node of m has devices of the job. Each node
// provides units in proportion to its devices, so that every device has cpus near it.
func (m *machine) divided(n int) []share {
	type part struct {
		machine    *machine
		n, devices int
	}
	var parts []*part
	for _, l := range m.leaves { // ascending by NUMA node
		if len(parts) > 0 && parts[len(parts)-1].machine.leaves[0].numa == l.numa {
			last := parts[len(parts)-1]
			last.machine = m.only(append(slices.Clone(last.machine.leaves), l))
			continue
		}
		parts = append(parts, &part{machine: m.only([]*leaf{l}), devices: m.near[l.numa]})
	}
	for range n {
		var to *part
		for _, p := range parts {
			if p.n < p.machine.free && (to == nil || (p.n+1)*to.devices < (to.n+1)*p.devices) {
				to = p
			}
		}
		to.n++
	}
	var shares []share
	for _, p := range parts {
		if p.n > 0 {
			shares = append(shares, p.machine.anywhere(p.n)...)
		}
	}
	return shares
}
