package kernfstest

import (
	"math"

	"golang.org/x/sys/unix"
)

// storeProcs is cgroup.procs. It takes one process id; 0 means the writer itself
// (cgroup_procs_write_start).
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
	return g.migrate(p)
}

// migrate moves p into g. It skips a dying task without an error (cgroup_migrate_add_task).
func (g *cgroup) migrate(p *process) error {
	if g.h.v2 && g.parent != nil && len(g.subtree) > 0 {
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
	g.h.k.settle(p) // it may have left the freezer
	return nil
}
