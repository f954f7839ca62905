package kernfstest

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// bounds are cgroup.max.depth and cgroup.max.descendants.
type bounds struct{ depth, descendants int64 }

// v2Core are the files of every v2 cgroup, with the defaults that Linux 6.18 shows.
var v2Core = append([]knob{
	reads("cgroup.controllers", func(g *cgroup) string { return words(g.enabled()) }),
	off(knob{name: "cgroup.events", show: showEvents, notifies: true}),
	off(knob{name: "cgroup.freeze", show: func(g *cgroup) string { return line(bit(g.freeze.self)) }, store: storeFreeze}),
	off(knob{name: "cgroup.kill", store: storeKill}),
	{name: "cgroup.max.depth", show: func(g *cgroup) string { return showSize(g.bounds.depth, "max") },
		store: func(g *cgroup, v string) error { return storeBound(&g.bounds.depth, v) }},
	{name: "cgroup.max.descendants", show: func(g *cgroup) string { return showSize(g.bounds.descendants, "max") },
		store: func(g *cgroup, v string) error { return storeBound(&g.bounds.descendants, v) }},
	keptNumber("cgroup.pressure", 1, 0, 1, unix.ERANGE),
	{name: "cgroup.procs", show: (*cgroup).pidList, store: storeProcs},
	reads("cgroup.stat", func(g *cgroup) string {
		return fmt.Sprintf("nr_descendants %d\nnr_dying_descendants 0\n", g.descendants())
	}),
	off(always("cgroup.stat.local", "frozen_usec 0\n")),
	{name: "cgroup.subtree_control", show: func(g *cgroup) string { return words(g.subtree) }, store: storeSubtree},
	{name: "cgroup.threads", show: (*cgroup).pidList, store: storeThreads},
	off(knob{name: "cgroup.type", show: showType, store: storeType}),
	reads("cpu.stat", showCPUStat),
	reads("cpu.stat.local", func(g *cgroup) string {
		if g.has("cpu") {
			return "throttled_usec 0\n"
		}
		return ""
	}),
}, pressureKnobs...)

// v2Knobs are the files of each controller (cgroup-v2.rst, "Controllers").
var v2Knobs = map[string][]knob{
	"cpu":    cpuV2,
	"cpuset": cpusetV2,
	"memory": memoryV2,
	"pids": append(slices.Clone(pidsKnobs),
		off(knob{name: "pids.events.local", show: func(g *cgroup) string { return keyed("max", g.pids.local) }, notifies: true})),
	"io": {
		off(kept("io.bfq.weight", "default 100\n")),
		off(kept("io.latency", "")),
		ioMaxKnob,
		off(kept("io.prio.class", "no-change\n")),
		reads("io.stat", func(*cgroup) string { return "" }),
	},
	"hugetlb": hugetlbV2,
	"rdma":    rdmaKnobs,
}

// unnamed are controllers that no v2 cgroup names and a kernel has all the same: perf_event is in
// each of them (implicit_on_dfl in kernel/events/core.c), the others are of v1 alone.
var unnamed = []string{"perf_event", "net_cls", "net_prio"}

func words(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return strings.Join(list, " ") + "\n"
}

func showEvents(g *cgroup) string {
	return keyed("populated", bit(g.populated()), "frozen", bit(g.frozen()))
}

// storeKill is cgroup_kill_write: SIGKILL to every process in g and below, frozen or not.
func storeKill(g *cgroup, v string) error {
	n, err := number(v)
	if err != nil {
		return err
	}
	if n != 1 {
		return unix.ERANGE
	}
	for d := range g.down {
		for _, p := range d.living() {
			g.h.k.kill(p)
		}
	}
	return nil
}

func storeBound(to *int64, v string) error {
	if v == "max" {
		*to = unlimited
		return nil
	}
	n, err := number(v)
	if err != nil {
		return err
	}
	if n < 0 {
		return unix.ERANGE
	}
	*to = n
	return nil
}

// roomBelow is cgroup_check_hierarchy_limits, for one more child of g.
func (g *cgroup) roomBelow() bool {
	level := int64(1)
	for a := range g.up {
		if a.descendants() >= a.bounds.descendants || level > a.bounds.depth {
			return false
		}
		level++
	}
	return true
}

func (g *cgroup) descendants() int64 {
	n := int64(-1)
	for range g.down {
		n++
	}
	return n
}

// showType is cgroup_type_show, without threaded cgroups.
func showType(g *cgroup) string {
	switch {
	case !g.validDomain():
		return "domain invalid\n"
	case g.threadRoot():
		return "domain threaded\n"
	}
	return "domain\n"
}

// storeType is cgroup_type_write; threaded cgroups are not made here.
func storeType(_ *cgroup, v string) error {
	if v != "threaded" {
		return unix.EINVAL
	}
	return unix.EOPNOTSUPP
}

// storeSubtree is cgroup_subtree_control_write: every word is checked before any is done.
func storeSubtree(g *cgroup, v string) error {
	on := slices.Clone(g.subtree)
	for _, word := range strings.Fields(v) {
		name := word[1:]
		switch {
		case word[0] != '+' && word[0] != '-' || v2Knobs[name] == nil || g.h.k.lacks(name):
			return unix.EINVAL
		case word[0] == '+' && !slices.Contains(on, name):
			if !g.has(name) {
				return unix.ENOENT // a controller that is on v1, for one
			}
			on = append(on, name)
		case word[0] == '-' && slices.Contains(on, name):
			for _, c := range g.children {
				if slices.Contains(c.subtree, name) {
					return unix.EBUSY
				}
			}
			on = remove(on, name)
		}
	}
	if err := g.mayEnable(remove(on, g.subtree...)); err != nil {
		return err
	}
	for _, c := range g.children {
		for _, name := range slices.Concat(remove(on, g.subtree...), remove(g.subtree, on...)) {
			c.reset(name)
		}
	}
	slices.SortFunc(on, func(a, b string) int {
		return slices.Index(g.h.controllers, a) - slices.Index(g.h.controllers, b)
	})
	g.subtree = on
	return nil
}

// remove returns list without names.
func remove(list []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(names, s) })
}

// mayEnable is cgroup_vet_subtree_control_enable: no internal processes, the root exempt.
func (g *cgroup) mayEnable(controllers []string) error {
	if len(controllers) == 0 {
		return nil
	}
	switch {
	case !g.validDomain():
		return unix.EOPNOTSUPP
	case g.parent == nil:
		return nil
	case domain(controllers) && g.threadRoot():
		return unix.EOPNOTSUPP
	case !domain(controllers) && g.canBeThreadRoot():
		return nil
	case len(g.procs) > 0:
		return unix.EBUSY
	}
	return nil
}

// showCPUStat is there in every cgroup; the cpu controller adds the bandwidth part.
func showCPUStat(g *cgroup) string {
	user, system := sum(g.time.user).Microseconds(), sum(g.time.system).Microseconds()
	text := keyed("usage_usec", user+system, "user_usec", user, "system_usec", system, "nice_usec", int64(0))
	if g.has("cpu") && g.parent != nil {
		text += "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\nnr_bursts 0\nburst_usec 0\n"
	}
	return text
}
