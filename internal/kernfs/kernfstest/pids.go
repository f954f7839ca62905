package kernfstest

import (
	"golang.org/x/sys/unix"
)

// pids is the pids controller (cgroup-v1/pids.rst).
type pids struct{ limit, peak int64 }

// maxPIDs is PIDS_MAX: PID_MAX_LIMIT + 1.
const maxPIDs = 4194305

var pidsKnobs = []knob{
	off(reads("pids.current", func(g *cgroup) string { return line(g.population()) })),
	off(knob{name: "pids.max", show: showPidsMax, store: storePidsMax}),
	off(reads("pids.peak", func(g *cgroup) string { return line(g.pids.peak) })),
}

func showPidsMax(g *cgroup) string { return showSize(g.pids.limit, "max") }

func storePidsMax(g *cgroup, v string) error {
	if v == "max" {
		g.pids.limit = unlimited
		return nil
	}
	n, err := number(v)
	if err != nil || n < 0 || n >= maxPIDs {
		return unix.EINVAL
	}
	g.pids.limit = n
	return nil
}

// pidsChanged records a new peak. Only fork respects pids.max; an attach may exceed it.
func (g *cgroup) pidsChanged() {
	for a := range g.up {
		a.pids.peak = max(a.pids.peak, a.population())
	}
}

// mayFork is pids_can_fork. It fails with EAGAIN if any cgroup above p is full.
func (p *process) mayFork() error {
	for _, g := range p.in {
		for a := range g.up {
			if a.parent != nil && a.has("pids") && a.population() >= a.pids.limit {
				return unix.EAGAIN
			}
		}
	}
	return nil
}
