package kernfstest

import (
	"golang.org/x/sys/unix"
)

// freezing reports whether freezer.state or cgroup.freeze requests that g freeze, in g or in a
// cgroup above it.
func (g *cgroup) freezing() bool {
	for a := range g.up {
		if a.freeze {
			return true
		}
	}
	return false
}

// frozen reports whether every process in g and below has stopped. A process that is stuck in the
// kernel has not.
func (g *cgroup) frozen() bool {
	if !g.freezing() {
		return false
	}
	for d := range g.down {
		for _, p := range d.living() {
			if p.stuck {
				return false
			}
		}
	}
	return true
}

func showFreezerState(g *cgroup) string {
	switch {
	case !g.freezing():
		return "THAWED\n"
	case !g.frozen():
		return "FREEZING\n"
	}
	return "FROZEN\n"
}

// storeFreezerState accepts only FROZEN and THAWED (freezer_write).
func storeFreezerState(g *cgroup, v string) error {
	if v != "FROZEN" && v != "THAWED" {
		return unix.EINVAL
	}
	g.setFreeze(v == "FROZEN")
	return nil
}

func (g *cgroup) setFreeze(on bool) {
	g.freeze = on
	for d := range g.down {
		for _, p := range d.living() {
			g.h.k.settle(p)
		}
	}
}

// storeFreeze is cgroup.freeze (cgroup_freeze_write).
func storeFreeze(g *cgroup, v string) error {
	n, err := number(v)
	if err != nil {
		return err
	}
	if n < 0 || n > 1 {
		return unix.ERANGE
	}
	g.setFreeze(n == 1)
	return nil
}

func (p *process) frozenV1() bool {
	for h, g := range p.in {
		if !h.v2 && g.freezing() {
			return true
		}
	}
	return false
}

func (p *process) isFrozen() bool {
	for _, g := range p.in {
		if g.freezing() {
			return !p.stuck
		}
	}
	return false
}
