package kernfstest

import (
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// v2Core are the files of every v2 cgroup, with the defaults of Linux 6.18. Threaded cgroups are
// not implemented.
var v2Core = []knob{
	reads("cgroup.controllers", func(g *cgroup) string { return words(g.enabled()) }),
	off(knob{name: "cgroup.events", show: showEvents, notifies: true}),
	off(knob{name: "cgroup.freeze", show: func(g *cgroup) string { return line(bit(g.freeze)) }, store: storeFreeze}),
	off(knob{name: "cgroup.kill", store: storeKill}),
	boundFile(maxDepth),
	boundFile(maxDescendants),
	{name: "cgroup.procs", show: (*cgroup).pidList, store: storeProcs},
	{name: "cgroup.subtree_control", show: func(g *cgroup) string { return words(g.subtree) }, store: storeSubtree},
	reads("cgroup.threads", (*cgroup).pidList),
	off(always("cgroup.type", "domain\n")),
	always("cpu.pressure", noPressure),
	reads("cpu.stat", showCPUStat),
	always("io.pressure", noPressure),
	always("memory.pressure", noPressure),
}

// noPressure is the text of a pressure file without stalls (accounting/psi.rst).
const noPressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n" +
	"full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"

// v2Knobs are the files of each controller (cgroup-v2.rst, "Controllers").
var v2Knobs = map[string][]knob{
	"cpu":    cpuV2,
	"cpuset": cpusetV2,
	"memory": memoryV2,
	"pids":   pidsKnobs,
	"io": {off(knob{name: "io.max", show: func(g *cgroup) string { return g.values["io.max"] },
		store: storeIOMax})},
	"hugetlb": hugetlbV2,
	"rdma":    {},
}

// unnamed are controllers that v2 files do not name. perf_event is in every v2 cgroup nevertheless
// (implicit_on_dfl in kernel/events/core.c); the others exist only on v1.
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

// storeKill is cgroup_kill_write. It sends SIGKILL to every process in g and below, frozen or not.
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

// storeSubtree is cgroup_subtree_control_write. It checks every word before it carries out any.
func storeSubtree(g *cgroup, v string) error {
	on := slices.Clone(g.subtree)
	for _, word := range strings.Fields(v) {
		name := word[1:]
		switch {
		case word[0] != '+' && word[0] != '-' || v2Knobs[name] == nil || g.h.k.lacks(name):
			return unix.EINVAL
		case word[0] == '+' && !slices.Contains(on, name):
			if !g.has(name) {
				return unix.ENOENT // for example, the controller is on v1
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

// mayEnable is cgroup_vet_subtree_control_enable: only the root may have processes and enabled
// controllers.
func (g *cgroup) mayEnable(controllers []string) error {
	if g.parent != nil && len(controllers) > 0 && len(g.procs) > 0 {
		return unix.EBUSY
	}
	return nil
}

// showCPUStat exists in every cgroup. The cpu controller adds the bandwidth part.
func showCPUStat(g *cgroup) string {
	text := keyed("usage_usec", g.cpuTime.Microseconds(), "user_usec", g.cpuTime.Microseconds(), "system_usec",
		int64(0))
	if g.has("cpu") && g.parent != nil {
		text += "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"
	}
	return text
}

// BlockDevice is the only disk that the fake's io.max knows.
const BlockDevice = "8:0"

// ioMaxForm is a line of io.max with every key (cgroup-v2.rst, "IO Interface Files").
var ioMaxForm = regexp.MustCompile(`^\d+:\d+ rbps=(max|\d+) wbps=(max|\d+) riops=(max|\d+) wiops=(max|\d+)$`)

// storeIOMax is tg_set_limit. A device that does not exist is ENODEV, a limit of 0 is ERANGE.
func storeIOMax(g *cgroup, v string) error {
	limits := ioMaxForm.FindStringSubmatch(v)
	switch {
	case limits == nil:
		return unix.EINVAL
	case !strings.HasPrefix(v, BlockDevice+" "):
		return unix.ENODEV
	case slices.Contains(limits[1:], "0"):
		return unix.ERANGE
	}
	g.values["io.max"] = v + "\n"
	if !slices.ContainsFunc(limits[1:], func(l string) bool { return l != "max" }) {
		delete(g.values, "io.max")
	}
	return nil
}
