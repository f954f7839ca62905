package kernfstest

import (
	"cmp"
	"slices"
)

// outOfMemory is mem_cgroup_oom. It returns the processes that it killed. Listeners of the cgroups
// below are also notified (mem_cgroup_oom_notify).
func (g *cgroup) outOfMemory() (killed []int) {
	g.count(func(e *events) *int64 { return &e.oom })
	defer func() {
		for d := range g.down {
			d.mem.signalOOM()
		}
	}()
	victim := g.victim()
	if victim == nil {
		return nil
	}
	victims := []*process{victim}
	if group := victim.oomGroup(g); group != nil {
		group.count(func(e *events) *int64 { return &e.groupKill })
		victims = nil
		for d := range group.down {
			victims = append(victims, d.living()...)
		}
		// oom_kill_process kills the victim, and then the rest of its group. If the victim is still
		// in the group by then, the kernel counts it twice.
		victim.memoryGroup().count(func(e *events) *int64 { return &e.kill })
	}
	for _, v := range victims {
		if v.pid == 1 {
			continue
		}
		v.memoryGroup().count(func(e *events) *int64 { return &e.kill })
		g.h.k.kill(v)
		killed = append(killed, v.pid)
	}
	return killed
}

// victim returns the largest process in g and below that can still be killed. init never can
// (oom_unkillable_task).
func (g *cgroup) victim() *process {
	var list []*process
	for d := range g.down {
		for _, p := range d.living() {
			if !p.dying && p.pid != 1 {
				list = append(list, p)
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	return slices.MaxFunc(list, func(a, b *process) int {
		return cmp.Or(cmp.Compare(a.rss(), b.rss()), b.pid-a.pid)
	})
}

// oomGroup is mem_cgroup_get_oom_group. Between the victim's cgroup and the one whose limit was
// hit, it returns the highest one with memory.oom.group.
func (p *process) oomGroup(limit *cgroup) (group *cgroup) {
	for a := range p.memoryGroup().up {
		if a.mem.oomGroup {
			group = a
		}
		if a == limit {
			break
		}
	}
	return group
}
