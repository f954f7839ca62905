package kernfstest

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// cpuset is the cpuset controller (cgroup-v1/cpusets.rst; cgroup-v2.rst, "Cpuset").
type cpuset struct {
	cpus, mems   kernfs.IDSet
	cpuExclusive bool
	memExclusive bool
}

func newCpuset(g *cgroup) cpuset {
	if g.parent != nil {
		return cpuset{}
	}
	m := g.h.k.machine
	return cpuset{cpus: m.online(), mems: m.nodes(), cpuExclusive: true, memExclusive: true}
}

// inheritCpuset is cpuset_css_online: a new v1 cpuset has its parent's flags that spread, and with
// cgroup.clone_children its cpus and nodes, and that flag.
func (g *cgroup) inheritCpuset() {
	for _, flag := range []string{spreadPage, spreadSlab} {
		if on, set := g.parent.values[flag]; set {
			g.values[flag] = on
		}
	}
	if g.h.v2 || g.parent.keptValue("cgroup.clone_children", 0) == 0 {
		return
	}
	g.values["cgroup.clone_children"] = "1"
	g.cpuset.cpus, g.cpuset.mems = g.parent.cpuset.cpus, g.parent.cpuset.mems
}

// resource is one of the two halves of a cpuset.
type resource struct {
	of        func(*cgroup) *kernfs.IDSet
	exclusive func(*cgroup) *bool
	possible  func(Machine) kernfs.IDSet
	numbers   func(Machine) int // that a list may name
}

var (
	cpus = resource{
		of:        func(g *cgroup) *kernfs.IDSet { return &g.cpuset.cpus },
		exclusive: func(g *cgroup) *bool { return &g.cpuset.cpuExclusive },
		possible:  Machine.online,
		numbers:   func(m Machine) int { return m.CPUs }, // nr_cpumask_bits
	}
	mems = resource{
		of:        func(g *cgroup) *kernfs.IDSet { return &g.cpuset.mems },
		exclusive: func(g *cgroup) *bool { return &g.cpuset.memExclusive },
		possible:  Machine.nodes,
		numbers:   func(Machine) int { return 1024 }, // MAX_NUMNODES
	}
)

func (r resource) show(g *cgroup) string { return r.of(g).String() + "\n" }

// effective is what the tasks may use. v1: what the file says. v2: that, within the parent's effective set; the
// parent's, when the file is empty or nothing of it is left.
func (r resource) effective(g *cgroup) kernfs.IDSet {
	if own, ok := g.partition(); ok && g.h.v2 && r.of(g) == &g.cpuset.cpus {
		return own
	}
	if !g.h.v2 || g.parent == nil {
		return r.left(g, *r.of(g))
	}
	above := r.effective(g.parent)
	if !g.has("cpuset") {
		return above
	}
	if s := above.Intersect(*r.of(g)); !s.IsEmpty() {
		return s
	}
	return above
}

func (r resource) showEffective(g *cgroup) string { return r.effective(g).String() + "\n" }

// store is cpuset_write_resmask with validate_change.
func (r resource) store(g *cgroup, v string) error {
	if g.parent == nil {
		return unix.EACCES // update_cpumask: the top cpuset is read-only
	}
	s, err := parseIDs(v, r.numbers(g.h.k.machine))
	if err != nil {
		return err
	}
	if !s.Minus(r.possible(g.h.k.machine)).IsEmpty() {
		return unix.EINVAL
	}
	if err := r.validate(g, s); err != nil {
		return err
	}
	*r.of(g) = s
	return nil
}

// parseIDs is bitmap_parselist: spaces separate as well as commas, empty parts are nothing, and a number that no cpu or
// node can have is ERANGE.
func parseIDs(v string, limit int) (kernfs.IDSet, error) {
	var ids []int
	for part := range strings.FieldsFuncSeq(v, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
		lo, hi, isRange := strings.Cut(part, "-")
		first, err := number(lo)
		last := first
		if err == nil && isRange {
			last, err = number(hi)
		}
		switch {
		case err != nil:
			return kernfs.IDSet{}, err
		case first < 0 || last < first:
			return kernfs.IDSet{}, unix.EINVAL
		case last >= int64(limit):
			return kernfs.IDSet{}, unix.ERANGE
		}
		for id := first; id <= last; id++ {
			ids = append(ids, int(id))
		}
	}
	return kernfs.IDs(ids...), nil
}

func (r resource) validate(g *cgroup, s kernfs.IDSet) error {
	for _, c := range g.children {
		if !g.h.v2 && !r.of(c).Minus(s).IsEmpty() {
			return unix.EBUSY // a child has what would go
		}
	}
	if !g.h.v2 && !s.Minus(*r.of(g.parent)).IsEmpty() {
		return unix.EACCES // not a subset of the parent
	}
	for _, sibling := range g.parent.children {
		if sibling != g && (*r.exclusive(g) || *r.exclusive(sibling)) && !r.of(sibling).Intersect(s).IsEmpty() {
			return unix.EINVAL
		}
	}
	if s.IsEmpty() && !r.of(g).IsEmpty() && g.populated() {
		return unix.ENOSPC // one with tasks cannot become empty; v2 too, in Linux 6.18
	}
	return nil
}

// cpusetMayAttach is cpuset_can_attach: a v1 cpuset has to have cpus and nodes before it takes a task.
func (g *cgroup) cpusetMayAttach() error {
	if !g.h.v2 && g.has("cpuset") && (g.cpuset.cpus.IsEmpty() || g.cpuset.mems.IsEmpty()) {
		return unix.ENOSPC
	}
	return nil
}

// flag is a cpuset flag that can be set only in a cgroup whose parent has it and that overlaps no sibling.
func (r resource) flag(name string) knob {
	return knob{
		name: name,
		show: func(g *cgroup) string { return line(bit(*r.exclusive(g))) },
		store: func(g *cgroup, v string) error {
			n, err := number(v)
			if err != nil {
				return err
			}
			if g.parent != nil && n != 0 && !*r.exclusive(g.parent) {
				return unix.EACCES
			}
			for _, sibling := range siblings(g) {
				if n != 0 && !r.of(sibling).Intersect(*r.of(g)).IsEmpty() {
					return unix.EINVAL
				}
			}
			*r.exclusive(g) = n != 0
			return nil
		},
	}
}

func siblings(g *cgroup) []*cgroup {
	var list []*cgroup
	if g.parent != nil {
		for _, s := range g.parent.children {
			if s != g {
				list = append(list, s)
			}
		}
	}
	return list
}

// The flags that a new cpuset has from its parent (cpuset_css_online).
const (
	spreadPage = "cpuset.memory_spread_page"
	spreadSlab = "cpuset.memory_spread_slab"
)

// turned is a flag of a cpuset: any number but 0 turns it on (cpuset_write_u64).
func turned(name string) knob {
	kn := kept(name, "0\n")
	kn.store = func(g *cgroup, v string) error {
		n, err := unsigned(v)
		if err != nil {
			return err
		}
		g.values[name] = strconv.FormatInt(bit(n != 0), 10)
		return nil
	}
	return kn
}

var cpusetV1 = []knob{
	cpus.flag("cpuset.cpu_exclusive"),
	{name: "cpuset.cpus", show: cpus.show, store: cpus.store},
	reads("cpuset.effective_cpus", cpus.showEffective),
	reads("cpuset.effective_mems", mems.showEffective),
	mems.flag("cpuset.mem_exclusive"),
	turned("cpuset.mem_hardwall"),
	turned("cpuset.memory_migrate"),
	always("cpuset.memory_pressure", "0\n"),
	top(keptNumber("cpuset.memory_pressure_enabled", 0, 0, 1, unix.EINVAL)),
	turned(spreadPage),
	turned(spreadSlab),
	{name: "cpuset.mems", show: mems.show, store: mems.store},
	keptNumber("cpuset.sched_load_balance", 1, 0, 1, unix.EINVAL),
	keptNumber("cpuset.sched_relax_domain_level", -1, -1, 5, unix.EINVAL),
}

var cpusetV2 = append([]knob{
	off(knob{name: "cpuset.cpus", show: cpus.show, store: cpus.store}),
	reads("cpuset.cpus.effective", cpus.showEffective),
	off(knob{name: "cpuset.mems", show: mems.show, store: mems.store}),
	reads("cpuset.mems.effective", mems.showEffective),
}, partitionKnobs...)
