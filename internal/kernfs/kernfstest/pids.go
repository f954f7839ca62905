package kernfstest

import (
	"golang.org/x/sys/unix"
)

// pids is the pids controller (cgroup-v1/pids.rst).
type pids struct {
	limit  int64
	peak   int64
	events int64 // forks refused
	local  int64 // the part of them for which this limit was the cause
}

// maxPIDs is PIDS_MAX: PID_MAX_LIMIT + 1.
const maxPIDs = 4194305

var pidsKnobs = []knob{
	off(reads("pids.current", func(g *cgroup) string { return line(g.population()) })),
	off(knob{name: "pids.events", show: func(g *cgroup) string { return keyed("max", g.pids.events) }, notifies: true}),
	off(knob{name: "pids.max", show: func(g *cgroup) string { return showSize(g.pids.limit, "max") }, store: storePidsMax}),
	off(reads("pids.peak", func(g *cgroup) string { return line(g.pids.peak) })),
}

func storePidsMax(g *cgroup, v string) error {
	if v == "max" {
		g.pids.limit = unlimited
		return nil
	}
	n, err := number(v)
	if err != nil {
		return err
	}
	if n < 0 || n >= maxPIDs {
		return unix.EINVAL
	}
	g.pids.limit = n
	return nil
}

// pidsChanged notes the new peak. Attaching may exceed pids.max; only fork is held to it (cgroup-v1/pids.rst).
func (g *cgroup) pidsChanged() {
	for a := range g.up {
		a.pids.peak = max(a.pids.peak, a.population())
	}
}

// mayFork is pids_can_fork: EAGAIN when any cgroup above is full. v2 counts the event where the limit is, and above; v1,
// and v2 before Linux 6.11, where the fork was (pids_event).
func (p *process) mayFork() error {
	for h, g := range p.in {
		for a := range g.up {
			if a.parent == nil || !a.has("pids") || a.population() < a.pids.limit {
				continue
			}
			if !h.v2 || h.k.lacks("pids.events.local") {
				g.pids.events++
				return unix.EAGAIN
			}
			a.pids.local++
			for full := range a.up {
				full.pids.events++
			}
			return unix.EAGAIN
		}
	}
	return nil
}
