package cgroup

import "maps"

// Cover returns l with the greater of both in what is shared out among jobs: memory, swap, cpus,
// NUMA nodes and huge pages. A job that goes from m to l by way of that has at each moment all that
// others must not be given. narrows reports whether there is anything of m in it that l has not.
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
