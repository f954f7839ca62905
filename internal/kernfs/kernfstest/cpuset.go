package kernfstest

import (
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// cpuset is the cpuset controller (cgroup-v1/cpusets.rst; cgroup-v2.rst, "Cpuset").
type cpuset struct{ cpus, mems kernfs.IDSet }

func newCpuset(g *cgroup) cpuset {
	if g.parent != nil {
		return cpuset{}
	}
	m := g.h.k.machine
	return cpuset{cpus: m.online(), mems: m.nodes()}
}

// resource is one half of a cpuset: cpus or mems.
type resource struct {
	of       func(*cgroup) *kernfs.IDSet
	possible func(Machine) kernfs.IDSet
	absent   unix.Errno // for a number that does not exist
}

var (
	cpus = resource{
		of:       func(g *cgroup) *kernfs.IDSet { return &g.cpuset.cpus },
		possible: Machine.online,
		absent:   unix.ERANGE, // bitmap_parselist
	}
	mems = resource{
		of:       func(g *cgroup) *kernfs.IDSet { return &g.cpuset.mems },
		possible: Machine.nodes,
		absent:   unix.EINVAL, // update_nodemask
	}
)

func (r resource) show(g *cgroup) string { return r.of(g).String() + "\n" }

// effective returns the set that the tasks of g may use. On v1 that is the file's set. On v2 it is
// the intersection of the file's set and the parent's effective set, or the latter if that is
// empty.
func (r resource) effective(g *cgroup) kernfs.IDSet {
	if !g.h.v2 || g.parent == nil {
		return *r.of(g)
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
	s, err := r.parse(g, v)
	if err != nil {
		return err
	}
	if err := r.validate(g, s); err != nil {
		return err
	}
	*r.of(g) = s
	return nil
}

func (r resource) parse(g *cgroup, v string) (kernfs.IDSet, error) {
	s, err := kernfs.ParseIDSet(v)
	switch {
	case err != nil:
		return kernfs.IDSet{}, unix.EINVAL
	case !s.Minus(r.possible(g.h.k.machine)).IsEmpty():
		return kernfs.IDSet{}, r.absent
	}
	return s, nil
}

func (r resource) validate(g *cgroup, s kernfs.IDSet) error {
	for _, c := range g.children {
		if !g.h.v2 && !r.of(c).Minus(s).IsEmpty() {
			return unix.EBUSY // a child has something that would be removed
		}
	}
	if !g.h.v2 && !s.Minus(*r.of(g.parent)).IsEmpty() {
		return unix.EACCES // not a subset of the parent
	}
	if s.IsEmpty() && !r.of(g).IsEmpty() && g.populated() {
		return unix.ENOSPC // a cpuset with tasks cannot become empty, in Linux 6.18 not even on v2
	}
	return nil
}

// cpusetMayAttach is cpuset_can_attach. A v1 cpuset needs cpus and nodes before it accepts a task.
func (g *cgroup) cpusetMayAttach() error {
	if !g.h.v2 && g.has("cpuset") && (g.cpuset.cpus.IsEmpty() || g.cpuset.mems.IsEmpty()) {
		return unix.ENOSPC
	}
	return nil
}

const spreadPage = "cpuset.memory_spread_page"

// inheritCpuset is cpuset_css_online. A new v1 cpuset inherits its parent's spread flags.
func (g *cgroup) inheritCpuset() {
	if on, set := g.parent.values[spreadPage]; set {
		g.values[spreadPage] = on
	}
}

// cpusetFlag is a flag of a v1 cpuset (cpuset_write_u64).
func cpusetFlag(name string) knob { return valueFile(name, 0, 0, 1, unix.EINVAL) }

var cpusetV1 = []knob{
	{name: "cpuset.cpus", show: cpus.show, store: cpus.store},
	reads("cpuset.effective_cpus", cpus.showEffective),
	reads("cpuset.effective_mems", mems.showEffective),
	cpusetFlag("cpuset.mem_hardwall"),
	cpusetFlag("cpuset.memory_migrate"),
	cpusetFlag(spreadPage),
	{name: "cpuset.mems", show: mems.show, store: mems.store},
}

var cpusetV2 = []knob{
	off(knob{name: "cpuset.cpus", show: cpus.show, store: cpus.store}),
	reads("cpuset.cpus.effective", cpus.showEffective),
	off(knob{name: "cpuset.mems", show: mems.show, store: mems.store}),
	reads("cpuset.mems.effective", mems.showEffective),
}
