package kernfstest

import (
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Remote partitions (cgroup-v2.rst, "Cpuset"; Linux 6.7): a cgroup may take cpus that every cgroup
// from the root down to it has in cpuset.cpus.exclusive. Local partitions, whose parent is one, are
// not made here.
const (
	exclusiveFile = "cpuset.cpus.exclusive"
	partitionFile = "cpuset.cpus.partition"
)

func (g *cgroup) exclusive() kernfs.IDSet {
	s, _ := kernfs.ParseIDSet(g.values[exclusiveFile]) // storeExclusive stored it
	return s
}

func showExclusive(g *cgroup) string { return g.exclusive().String() + "\n" }

// exclusiveEffective is what may become a partition: the root has all cpus to give.
func (g *cgroup) exclusiveEffective() kernfs.IDSet {
	if g.parent == nil {
		return g.h.k.machine.online()
	}
	if !g.has("cpuset") {
		return kernfs.IDSet{}
	}
	return g.exclusive().Intersect(g.parent.exclusiveEffective())
}

// storeExclusive is update_exclusive_cpumask with validate_change: no sibling's exclusive cpus, and
// not all of a sibling's cpuset.cpus.
func storeExclusive(g *cgroup, v string) error {
	s, err := cpus.parse(g, v)
	if err != nil {
		return err
	}
	for _, sibling := range g.parent.children {
		if sibling == g {
			continue
		}
		if !sibling.exclusive().Intersect(s).IsEmpty() {
			return unix.EINVAL
		}
		if theirs := sibling.cpuset.cpus; !theirs.IsEmpty() && theirs.Minus(s).IsEmpty() {
			return unix.EINVAL
		}
	}
	g.values[exclusiveFile] = s.String()
	return nil
}

// partition returns the cpus of g where it is a valid isolated partition.
func (g *cgroup) partition() (kernfs.IDSet, bool) {
	if g.values[partitionFile] != "isolated" || !g.has("cpuset") {
		return kernfs.IDSet{}, false
	}
	s := g.exclusiveEffective()
	return s, !s.IsEmpty() && !g.h.k.machine.online().Minus(s).IsEmpty()
}

func showPartition(g *cgroup) string {
	v, ok := g.values[partitionFile]
	if !ok {
		return "member\n"
	}
	if _, valid := g.partition(); !valid && v != "member" {
		return v + " invalid (Invalid cpu list in cpuset.cpus.exclusive)\n"
	}
	return v + "\n"
}

func storePartition(g *cgroup, v string) error {
	if v != "member" && v != "isolated" { // "root" is not made here
		return unix.EINVAL
	}
	if v == "isolated" && g.cpuset.cpus.IsEmpty() && g.exclusive().IsEmpty() {
		return unix.EINVAL // update_prstate: PERR_CPUSEMPTY
	}
	g.values[partitionFile] = v
	return nil
}

// isolated are the cpus of all valid partitions.
func (h *hierarchy) isolated() kernfs.IDSet {
	var all kernfs.IDSet
	for g := range h.root.down {
		if s, ok := g.partition(); ok {
			all = all.Union(s)
		}
	}
	return all
}

// left is what set has besides partitions' cpus, for the cpus of a v2 cgroup that is none.
func (r resource) left(g *cgroup, set kernfs.IDSet) kernfs.IDSet {
	if r.of(g) != &g.cpuset.cpus || !g.h.v2 {
		return set
	}
	return set.Minus(g.h.isolated())
}
