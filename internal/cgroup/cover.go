package cgroup

import "maps"

// Cover returns l with the greater of both in what is shared out among jobs: memory, swap, cpus, NUMA nodes and huge pages.
// A job that goes from m to l by way of that has at each moment all that others must not be given. narrows tells whether
// there is anything of m in it that l has not.
func (l Limits) Cover(m Limits) (both Limits, narrows bool) {
	both = l
	widen := func(n **int64, other *int64) {
		if above(other, *n) {
			*n, narrows = other, true
		}
	}
	widen(&both.Mem, m.Mem)
	widen(&both.MemSwap, m.MemSwap)
	widen(&both.MemHigh, m.MemHigh) // writing it reclaims
	if l.MemSoft != nil && m.MemSoft != nil {
		widen(&both.MemSoft, m.MemSoft)
	}
	both.CPUs, both.Mems = l.CPUs.Union(m.CPUs), l.Mems.Union(m.Mems)
	narrows = narrows || !both.CPUs.Equal(l.CPUs) || !both.Mems.Equal(l.Mems)
	both.Hugetlb = maps.Clone(l.Hugetlb)
	for size, n := range l.Hugetlb {
		switch had, limited := m.Hugetlb[size]; {
		case !limited:
			delete(both.Hugetlb, size)
		case had > n:
			both.Hugetlb[size] = had
		default:
			continue
		}
		narrows = true
	}
	return both, narrows
}

// Within returns l with no more than m has of what is shared out among jobs: of two sizes the lesser, and l's cpus with their
// NUMA nodes where m has them all, else m's. To go from m to that takes nothing from others.
func (l Limits) Within(m Limits) Limits {
	lessen := func(n **int64, other *int64) {
		if above(*n, other) {
			*n = other
		}
	}
	lessen(&l.Mem, m.Mem)
	lessen(&l.MemSwap, m.MemSwap)
	lessen(&l.MemHigh, m.MemHigh)
	if l.MemSoft != nil && m.MemSoft != nil {
		lessen(&l.MemSoft, m.MemSoft)
	}
	switch {
	case !l.CPUs.Minus(m.CPUs).IsEmpty():
		l.CPUs, l.Mems = m.CPUs, m.Mems
	case !l.CPUs.IsEmpty() && (l.Mems.IsEmpty() || !l.Mems.Minus(m.Mems).IsEmpty()):
		l.Mems = m.Mems
	}
	huge := maps.Clone(m.Hugetlb)
	for size, n := range l.Hugetlb {
		if most, limited := m.Hugetlb[size]; limited {
			n = min(n, most)
		}
		if huge == nil {
			huge = map[int64]int64{}
		}
		huge[size] = n
	}
	l.Hugetlb = huge
	return l
}

// With returns l with what is shared out among jobs as m has it; see Cover.
func (l Limits) With(m Limits) Limits {
	l.Mem, l.MemSwap, l.MemHigh, l.MemSoft = m.Mem, m.MemSwap, m.MemHigh, m.MemSoft
	l.CPUs, l.Mems, l.Hugetlb = m.CPUs, m.Mems, m.Hugetlb
	return l
}
