package kernfstest

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// HugePage is the size of the fake's huge pages, in bytes.
const HugePage = 2 << 20

// hugetlbV1 and hugetlbV2 are the files of the one page size that there is (cgroup-v1/hugetlb.rst; cgroup-v2.rst,
// "HugeTLB"). v2 tells no peak.
var (
	hugetlbV1 = []knob{
		off(kept("hugetlb.2MB.failcnt", "0\n")),
		off(hugetlbLimit("hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.use", "-1")),
		off(hugetlbAmount("hugetlb.2MB.max_usage_in_bytes", "hugetlb.2MB.peak")),
		off(always("hugetlb.2MB.numa_stat", "total=0 N0=0\n")),
		off(kept("hugetlb.2MB.rsvd.failcnt", "0\n")),
		off(hugetlbLimit("hugetlb.2MB.rsvd.limit_in_bytes", "hugetlb.2MB.use", "-1")),
		off(hugetlbAmount("hugetlb.2MB.rsvd.max_usage_in_bytes", "hugetlb.2MB.peak")),
		off(hugetlbAmount("hugetlb.2MB.rsvd.usage_in_bytes", "hugetlb.2MB.use")),
		off(hugetlbAmount("hugetlb.2MB.usage_in_bytes", "hugetlb.2MB.use")),
	}
	hugetlbV2 = []knob{
		off(hugetlbAmount("hugetlb.2MB.current", "hugetlb.2MB.use")),
		off(knob{name: "hugetlb.2MB.events", show: func(g *cgroup) string { return keyed("max", g.keptValue("hugetlb.2MB.hits", 0)) }, notifies: true}),
		off(always("hugetlb.2MB.events.local", "max 0\n")),
		off(hugetlbLimit("hugetlb.2MB.max", "hugetlb.2MB.use", "max")),
		off(always("hugetlb.2MB.numa_stat", "total=0 N0=0\n")),
		off(hugetlbAmount("hugetlb.2MB.rsvd.current", "hugetlb.2MB.use")),
		off(hugetlbLimit("hugetlb.2MB.rsvd.max", "hugetlb.2MB.use", "max")),
	}
)

func hugetlbAmount(name, key string) knob {
	return reads(name, func(g *cgroup) string { return line(g.keptValue(key, 0)) })
}

// hugetlbLimit is hugetlb_cgroup_write: rounded down to huge pages, EBUSY below what is in use (page_counter_set_max).
func hugetlbLimit(name, use, word string) knob {
	return knob{
		name: name,
		show: func(g *cgroup) string { return showSize(g.keptValue(name, unlimited), word) },
		store: func(g *cgroup, v string) error {
			n, err := size(v, word)
			if err != nil {
				return err
			}
			if n != unlimited {
				n -= n % HugePage
			}
			if n < g.keptValue(use, 0) {
				return unix.EBUSY
			}
			g.values[name] = strconv.FormatInt(n, 10)
			return nil
		},
	}
}

// ChargeHuge makes pid use n bytes more of huge pages, in whole pages; fewer for a negative n. It tells whether the limits
// above pid allow it: a kernel ends the process with SIGBUS, or refuses its mmap, where they do not.
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
		if !strings.Contains(strings.Join(h.controllers, " "), "hugetlb") {
			continue
		}
		for a := range g.up {
			limit := a.keptValue("hugetlb.2MB.max", a.keptValue("hugetlb.2MB.limit_in_bytes", unlimited))
			if n > 0 && a.keptValue("hugetlb.2MB.use", 0)+n > limit {
				a.values["hugetlb.2MB.hits"] = strconv.FormatInt(a.keptValue("hugetlb.2MB.hits", 0)+1, 10)
				return false
			}
		}
		for a := range g.up {
			use := a.keptValue("hugetlb.2MB.use", 0) + n
			a.values["hugetlb.2MB.use"] = strconv.FormatInt(use, 10)
			a.values["hugetlb.2MB.peak"] = strconv.FormatInt(max(use, a.keptValue("hugetlb.2MB.peak", 0)), 10)
		}
	}
	return true
}
