package kernfstest

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hierarchy is one mounted cgroup tree.
type hierarchy struct {
	k           *Kernel
	id          int    // in /proc/PID/cgroup; 0 for v2
	dir         string // below /sys/fs/cgroup; "" means /sys/fs/cgroup itself
	v2          bool
	controllers []string // those that exist on k; "name=systemd" in a named hierarchy
	root        *cgroup
}

// cgroup is one directory of a hierarchy. It also has state for controllers that are not enabled in
// it. That state is not visible, and is reset when the controller is enabled.
type cgroup struct {
	h        *hierarchy
	name     string
	parent   *cgroup // nil for the root
	children map[string]*cgroup
	procs    map[int]*process
	subtree  []string          // v2: cgroup.subtree_control, sorted
	values   map[string]string // of files that only show what was written
	xattrs   map[string][]byte
	ids      map[string]*identity // of the directory ("") and its files
	owners   map[string]int       // of the directory ("") and its files; root owns the others
	removed  bool
	cpuTime  time.Duration

	mem     memory
	cpuset  cpuset
	pids    pids
	huge    huge
	freeze  bool // freezer.state or cgroup.freeze
	devices devices
}

// mount mounts a v1 hierarchy, unless k has none of its controllers.
func (k *Kernel) mount(dir string, controllers ...string) {
	h := &hierarchy{k: k, id: len(k.hierarchies) + 1, dir: dir, controllers: k.available(controllers)}
	if len(h.controllers) > 0 {
		k.add(h)
	}
}

// mount2 mounts the v2 tree.
func (k *Kernel) mount2(dir string, controllers ...string) {
	k.add(&hierarchy{k: k, dir: dir, v2: true, controllers: k.available(controllers)})
}

func (k *Kernel) add(h *hierarchy) {
	h.root = newCgroup(h, nil, "")
	k.hierarchies = append(k.hierarchies, h)
}

func (k *Kernel) available(controllers []string) []string {
	return slices.DeleteFunc(controllers, k.lacks)
}

// lacks reports whether Without named the file, the controller, or a group that includes it.
func (k *Kernel) lacks(name string) bool {
	for _, w := range k.without {
		if name == w || strings.HasPrefix(name, w+".") {
			return true
		}
		if w == "swap" && (strings.HasPrefix(name, "memory.memsw.") || strings.HasPrefix(name, "memory.swap.")) {
			return true
		}
	}
	return false
}

func (k *Kernel) roots() map[*hierarchy]*cgroup {
	in := make(map[*hierarchy]*cgroup)
	for _, h := range k.hierarchies {
		in[h] = h.root
	}
	return in
}

func newCgroup(h *hierarchy, parent *cgroup, name string) *cgroup {
	g := &cgroup{
		h: h, name: name, parent: parent,
		children: map[string]*cgroup{}, procs: map[int]*process{}, values: map[string]string{},
		xattrs: map[string][]byte{}, ids: map[string]*identity{}, owners: map[string]int{},
	}
	for _, c := range h.controllers {
		g.reset(c)
	}
	return g
}

// reset gives the controller's state in g the values of a new cgroup.
func (g *cgroup) reset(controller string) {
	switch controller {
	case "memory":
		g.mem.reset()
	case "cpuset":
		g.cpuset = newCpuset(g)
	case "pids":
		g.pids = pids{limit: unlimited}
	}
	for name := range g.values {
		if strings.HasPrefix(name, controller+".") {
			delete(g.values, name)
		}
	}
}

// enabled returns the controllers that have files in g.
func (g *cgroup) enabled() []string {
	if g.h.v2 && g.parent != nil {
		return g.parent.subtree
	}
	return g.h.controllers
}

func (g *cgroup) has(controller string) bool { return slices.Contains(g.enabled(), controller) }

// path returns g's path as in /proc/PID/cgroup.
func (g *cgroup) path() string {
	if g.parent == nil {
		return "/"
	}
	return path.Join(g.parent.path(), g.name)
}

// up yields g and its ancestors, up to the root.
func (g *cgroup) up(yield func(*cgroup) bool) {
	for ; g != nil; g = g.parent {
		if !yield(g) {
			return
		}
	}
}

// down yields g and its descendants, parents first, sorted by name.
func (g *cgroup) down(yield func(*cgroup) bool) { g.walk(yield) }

func (g *cgroup) walk(yield func(*cgroup) bool) bool {
	if !yield(g) {
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(g.children)) {
		if !g.children[name].walk(yield) {
			return false
		}
	}
	return true
}

// mkdir creates a child.
func (g *cgroup) mkdir(name string) error {
	switch {
	case len(name) > 255:
		return unix.ENAMETOOLONG
	case strings.Contains(name, "\n"): // cgroup_mkdir: otherwise /proc/PID/cgroup could not be parsed
		return unix.EINVAL
	case g.children[name] != nil || g.knob(name) != nil:
		return unix.EEXIST
	case !g.mayHaveChild():
		return unix.EAGAIN
	}
	child := newCgroup(g.h, g, name)
	child.inheritCpuset()
	child.devices = devices{deny: g.devices.deny, list: slices.Clone(g.devices.list)} // devcgroup_online
	g.children[name] = child
	return nil
}

// rmdir removes g. It fails with EBUSY if the cgroup is populated or has children
// (cgroup_destroy_locked). Page cache that is still charged to g moves to the parent, whose totals
// have always included it.
func (g *cgroup) rmdir() error {
	if g.parent == nil || len(g.children) > 0 || len(g.living()) > 0 {
		return unix.EBUSY
	}
	g.memoryOffline()
	delete(g.parent.children, g.name)
	g.removed = true
	g.mem.closeListeners()
	return nil
}

// living returns the processes of g that are not zombies, by id.
func (g *cgroup) living() []*process {
	var ps []*process
	for _, pid := range slices.Sorted(maps.Keys(g.procs)) {
		if p := g.procs[pid]; !p.zombie {
			ps = append(ps, p)
		}
	}
	return ps
}

// population counts the tasks of g and its descendants. Zombies count, because they have a pid
// until they are reaped.
func (g *cgroup) population() int64 {
	var n int64
	for d := range g.down {
		n += int64(len(d.procs))
	}
	return n
}

// populated reports whether a living process is in g or below (cgroup-v2.rst, "[Un]populated
// Notification").
func (g *cgroup) populated() bool {
	for d := range g.down {
		if len(d.living()) > 0 {
			return true
		}
	}
	return false
}

func (g *cgroup) pidList() string {
	var b strings.Builder
	for _, p := range g.living() {
		b.WriteString(strconv.Itoa(p.pid) + "\n")
	}
	return b.String()
}
