package kernfstest

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// Bounds of what may be created below a v2 cgroup (cgroup-v2.rst, "Core Interface Files").
const (
	maxDepth       = "cgroup.max.depth"
	maxDescendants = "cgroup.max.descendants"
)

// boundFile is a file with "max" or a number (cgroup_max_depth_write). Numbers are an int.
func boundFile(name string) knob {
	return knob{
		name: name,
		show: func(g *cgroup) string {
			if n, bounded := g.bound(name); bounded {
				return line(n)
			}
			return "max\n"
		},
		store: func(g *cgroup, v string) error {
			if v == "max" {
				delete(g.values, name)
				return nil
			}
			n, err := strconv.ParseInt(v, 10, 64)
			switch {
			case err != nil:
				return unix.EINVAL
			case n < 0 || n != int64(int32(n)):
				return unix.ERANGE
			}
			g.setValue(name, n)
			return nil
		},
	}
}

func (g *cgroup) bound(name string) (n int64, bounded bool) {
	_, bounded = g.values[name]
	return g.value(name, unlimited), bounded
}

// mayHaveChild is cgroup_check_hierarchy_limits.
func (g *cgroup) mayHaveChild() bool {
	depth := int64(1)
	for a := range g.up {
		if n, bounded := a.bound(maxDescendants); bounded && a.descendants() >= n {
			return false
		}
		if n, bounded := a.bound(maxDepth); bounded && depth > n {
			return false
		}
		depth++
	}
	return true
}

func (g *cgroup) descendants() int64 {
	n := int64(-1) // without g
	for range g.down {
		n++
	}
	return n
}
