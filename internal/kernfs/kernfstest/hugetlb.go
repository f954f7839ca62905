package kernfstest

import (
	"slices"

	"golang.org/x/sys/unix"
)

// HugePage is the size of the fake's huge pages, in bytes.
const HugePage = 2 << 20

// hugetlbV1 and hugetlbV2 are the files for the fake's only size of huge pages
// (cgroup-v1/hugetlb.rst; cgroup-v2.rst, "HugeTLB"). v2 has no peak.
var (
	hugetlbV1 = []knob{
		off(hugetlbLimit("hugetlb.2MB.limit_in_bytes", "-1")),
		off(reads("hugetlb.2MB.max_usage_in_bytes", func(g *cgroup) string { return line(g.huge.peak) })),
		off(hugetlbLimit("hugetlb.2MB.rsvd.limit_in_bytes", "-1")),
		off(reads("hugetlb.2MB.rsvd.usage_in_bytes", func(g *cgroup) string { return line(g.huge.use) })),
		off(reads("hugetlb.2MB.usage_in_bytes", func(g *cgroup) string { return line(g.huge.use) })),
	}
	hugetlbV2 = []knob{
		off(reads("hugetlb.2MB.current", func(g *cgroup) string { return line(g.huge.use) })),
		off(hugetlbLimit("hugetlb.2MB.max", "max")),
		off(reads("hugetlb.2MB.rsvd.current", func(g *cgroup) string { return line(g.huge.use) })),
		off(hugetlbLimit("hugetlb.2MB.rsvd.max", "max")),
	}
)

// huge is a cgroup's usage of huge pages, in bytes.
type huge struct{ use, peak int64 }

// hugetlbLimit is hugetlb_cgroup_write. It rounds down to huge pages, and fails with EBUSY below
// the current usage (page_counter_set_max).
func hugetlbLimit(name, word string) knob {
	return knob{
		name: name,
		show: func(g *cgroup) string { return showSize(g.value(name, unlimited), word) },
		store: func(g *cgroup, v string) error {
			n, err := size(v, word)
			if err != nil {
				return err
			}
			if n != unlimited {
				n -= n % HugePage
			}
			if n < g.huge.use {
				return unix.EBUSY
			}
			g.setValue(name, n)
			return nil
		},
	}
}

// ChargeHuge makes pid use n more bytes of huge pages, in whole pages, or fewer if n is negative.
// It reports whether the limits above pid allow that. If not, a kernel ends the process with
// SIGBUS, or refuses its mmap.
func (k *Kernel) ChargeHuge(pid int, n int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.wake()
	p, ok := k.procs[pid]
	if !ok || p.zombie {
		return false
	}
	n -= n % HugePage
	for h, g := range p.in {
		if !slices.Contains(h.controllers, "hugetlb") {
			continue
		}
		for a := range g.up {
			limit := a.value("hugetlb.2MB.max", a.value("hugetlb.2MB.limit_in_bytes", unlimited))
			if n > 0 && a.huge.use+n > limit {
				return false
			}
		}
		for a := range g.up {
			a.huge.use += n
			a.huge.peak = max(a.huge.use, a.huge.peak)
		}
	}
	return true
}
