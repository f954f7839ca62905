package kernfstest

import (
	"math"
	"slices"

	"golang.org/x/sys/unix"
)

// storeProcs is cgroup.procs: one process id, 0 for the writer itself (cgroup_procs_write_start).
func storeProcs(g *cgroup, v string) error {
	pid, err := number(v)
	if err != nil || pid < 0 || pid > math.MaxInt32 {
		return unix.EINVAL
	}
	if pid == 0 {
		pid = int64(g.h.k.self)
	}
	p, ok := g.h.k.procs[int(pid)]
	if !ok {
		return unix.ESRCH
	}
	return g.take(p)
}

// storeThreads is cgroup.threads: threads do not leave their domain (cgroup_attach_permissions).
func storeThreads(g *cgroup, v string) error {
	pid, err := number(v)
	if err != nil || pid < 0 {
		return unix.EINVAL
	}
	p, ok := g.h.k.procs[int(pid)]
	switch {
	case !ok:
		return unix.ESRCH
	case p.in[g.h] != g:
		return unix.EOPNOTSUPP
	}
	return nil
}

// take moves p into g. A dying task is passed over (cgroup_migrate_add_task), which is no error.
func (g *cgroup) take(p *process) error {
	if g.h.v2 && !g.validDomain() {
		return unix.EOPNOTSUPP
	}
	if g.h.v2 && !g.canBeThreadRoot() && len(g.subtree) > 0 {
		return unix.EBUSY // cgroup_migrate_vet_dst: no internal processes
	}
	if err := g.cpusetMayAttach(); err != nil {
		return err
	}
	if p.zombie {
		return nil
	}
	old := p.in[g.h]
	delete(old.procs, p.pid)
	p.in[g.h] = g
	g.procs[p.pid] = p
	g.pidsChanged()
	g.h.k.settle(p) // out of the freezer, perhaps
	return nil
}

// threaded are the controllers that can be enabled in a cgroup with processes (cgroup-v2.rst, "Threads").
var threaded = []string{"cpu", "cpuset", "perf_event", "pids"}

func domain(controllers []string) bool {
	return slices.ContainsFunc(controllers, func(c string) bool { return !slices.Contains(threaded, c) })
}

// threadRoot is cgroup_is_thread_root: a domain with processes of its own that has threaded controllers enabled.
func (g *cgroup) threadRoot() bool {
	return len(g.procs) > 0 && slices.ContainsFunc(g.subtree, func(c string) bool { return slices.Contains(threaded, c) })
}

// validDomain is cgroup_is_valid_domain: below a thread root, other than the root, no cgroup takes processes.
func (g *cgroup) validDomain() bool {
	for a := g.parent; a != nil; a = a.parent {
		if a.parent != nil && a.threadRoot() {
			return false
		}
	}
	return true
}

// canBeThreadRoot is the function of that name in kernel/cgroup/cgroup.c.
func (g *cgroup) canBeThreadRoot() bool {
	if g.parent == nil {
		return true
	}
	for _, c := range g.children {
		if c.populated() {
			return false
		}
	}
	return !domain(g.subtree)
}
