package cgroup

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
)

const defaultPrefix = "pbs_jobs"

// Open is Detect for this machine, whose kernel files it returns.
func Open(opt Options) (kernfs.Roots, *Tree, error) {
	roots, err := kernfs.OpenRoots()
	if err != nil {
		return roots, nil, fmt.Errorf("open kernel files: %w", err)
	}
	t, err := Detect(roots, opt)
	return roots, t, err
}

// Detect finds the node's cgroup hierarchies in the mount table of the calling process and
// determines which are v1 and v2. It creates nothing. It fails if no suitable cgroup file system is
// mounted.
//
// containerd/cgroups looks only at /sys/fs/cgroup, and mistakes a node without any cgroup mount for
// one with v1 (utils.go:54).
func Detect(roots kernfs.Roots, opt Options) (*Tree, error) {
	if opt.Prefix == "" {
		opt.Prefix = defaultPrefix
	}
	if strings.ContainsAny(opt.Prefix, "/\n") || strings.HasPrefix(opt.Prefix, ".") {
		return nil, fmt.Errorf("detect cgroups: prefix %q: not a plain name", opt.Prefix)
	}
	base, err := mountDir(roots.Cgroup, opt.Mount)
	if err != nil {
		return nil, fmt.Errorf("detect cgroups: %w", err)
	}
	mounts, err := Mounts(roots.Proc)
	if err != nil {
		return nil, fmt.Errorf("detect cgroups: %w", err)
	}
	named := systemdMount(mounts, base.Path("."))
	asked := opt.Controllers
	opt.Controllers = slices.Concat(asked, stillThere(base, mounts, opt.Prefix))
	chosen, err := choose(mounts, base.Path("."), opt)
	if err != nil {
		return nil, fmt.Errorf("detect cgroups: %s: %w", roots.Proc.Path("self/mountinfo"), err)
	}
	if opt.Delegated && named != nil && !slices.ContainsFunc(chosen, func(m Mount) bool { return m.V2 }) {
		chosen = append(chosen, *named)
	}
	t := &Tree{proc: roots.Proc, signal: opt.Signal}
	hybrid := slices.ContainsFunc(chosen, func(m Mount) bool { return !m.V2 && !m.onlyPlaces() })
	if hybrid { // the v1 hierarchies may have what the v2 tree lacks
		opt.Enable, opt.EnableIfThere = nil, slices.Concat(opt.Enable, opt.EnableIfThere)
	}
	for _, m := range chosen {
		h, err := newHierarchy(base, m, opt)
		if err != nil {
			return nil, fmt.Errorf("detect cgroups: %w", err)
		}
		h.leaving = m.onlyPlaces() && len(known(m.controllers, asked)) == 0
		t.hierarchies = append(t.hierarchies, h)
		if h.v2 {
			t.v2 = h
		}
	}
	switch {
	case t.v2 == nil:
		t.mode = ModeV1
	case hybrid:
		t.mode = ModeHybrid
	default:
		t.mode = ModeV2
	}
	return t, nil
}

// stillThere returns the controllers of placing whose v1 hierarchies have a parent of jobs. Jobs
// that began while the configuration named these controllers still have directories there that must
// be removed.
func stillThere(base *kernfs.FS, mounts []Mount, prefix string) []string {
	var list []string
	for _, m := range mounts {
		at, below := strings.CutPrefix(m.Point, base.Path(".")+"/")
		if !m.V2 && below && m.onlyPlaces() && base.Exists(at+"/"+prefix+".service") {
			list = append(list, m.controllers...)
		}
	}
	return list
}

// onlyPlaces reports whether the mount has controllers of placing but none of controllers.
func (m Mount) onlyPlaces() bool {
	return len(known(m.controllers, nil)) == 0 && len(known(m.controllers, placing)) > 0
}

const systemdHierarchy = "name=systemd"

// systemdMount returns systemd's v1 hierarchy, or nil. If there is no v2 tree, jobs must be in
// their unit there too. systemd uses this hierarchy to kill a unit and to assign its processes to
// controllers (cg_migrate_v1_controllers). So it would take away processes that seem to belong to
// pbs_mom or a login.
func systemdMount(mounts []Mount, base string) *Mount {
	for _, m := range mounts {
		if !m.V2 && within(m.Point, base) && slices.Contains(m.controllers, systemdHierarchy) {
			return &Mount{Point: m.Point, Root: m.Root, controllers: []string{systemdHierarchy}}
		}
	}
	return nil
}

// mountDir returns root, or the directory that replaces it.
func mountDir(root *kernfs.FS, dir string) (*kernfs.FS, error) {
	at := root.Path(".")
	switch {
	case dir == "" || path.Clean(dir) == at:
		return root, nil
	case !path.IsAbs(dir):
		return nil, fmt.Errorf("mount %q: not an absolute path", dir)
	case within(path.Clean(dir), at):
		return root.Sub(strings.TrimPrefix(path.Clean(dir), at+"/"))
	}
	return kernfs.Open(path.Clean(dir))
}

func within(dir, base string) bool { return dir == base || strings.HasPrefix(dir, base+"/") }

func newHierarchy(base *kernfs.FS, m Mount, opt Options) (*hierarchy, error) {
	name := "."
	if at := base.Path("."); m.Point != at {
		name = strings.TrimPrefix(m.Point, at+"/")
	}
	root, err := base.Sub(name)
	if err != nil {
		return nil, err
	}
	h := &hierarchy{v2: m.V2, mount: root, root: m.Root, unit: opt.Prefix + ".service", leaf: "jobid",
		delegated: opt.Delegated, enable: opt.Enable, enableIfThere: opt.EnableIfThere, asked: opt.Controllers,
		signal: opt.Signal}
	names := m.controllers
	if h.v2 {
		h.leaf = "jobs"
		if names, err = h.expected(); err != nil {
			return nil, err
		}
	}
	h.names.Store(&names)
	h.jobs, err = root.Sub(h.unit + "/" + h.leaf)
	return h, err
}

// systemdControllers are the controllers that systemd passes down to a unit with Delegate=yes
// (CGROUP_MASK_V2 in systemd's basic/cgroup-util.h). systemd also enables them in the root of the
// v2 tree. It leaves other controllers alone.
var systemdControllers = []string{"cpu", "cpuset", "io", "memory", "pids"}

// expected returns the controllers that jobs in the v2 tree will have after Prepare. These are
// those that the root passes to its children and those that Prepare enables there. If systemd has
// not started the delegated unit yet, they include those that systemd will pass down.
func (h *hierarchy) expected() ([]string, error) {
	there, err := words(h.mount, "cgroup.controllers")
	if err != nil {
		return nil, err
	}
	passed, err := words(h.mount, "cgroup.subtree_control")
	if err != nil {
		return nil, err
	}
	passed = slices.Concat(passed, h.enable, h.enableIfThere)
	if h.delegated && !h.mount.Exists(h.unit) {
		passed = append(passed, systemdControllers...)
	}
	return known(slices.DeleteFunc(passed, func(c string) bool { return !slices.Contains(there, c) }), h.asked), nil
}

// words reads a file that contains a list of words.
func words(dir *kernfs.FS, file string) ([]string, error) {
	b, err := dir.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(b)), nil
}

// choose picks the hierarchies to use from the mount table, but only below base. If one is mounted
// several times, it picks the mount with the shortest path. Hierarchies that only place processes
// come last, after the v2 tree.
func choose(mounts []Mount, base string, opt Options) ([]Mount, error) {
	mode := opt.Mode
	var v2 *Mount
	v1 := map[string]*Mount{}      // by controller
	outside := map[string]string{} // by controller, or "" for the v2 tree
	better := func(m, than *Mount) bool { return than == nil || len(m.Point) < len(than.Point) }
	for i := range mounts {
		m := &mounts[i]
		m.controllers = known(m.controllers, opt.Controllers)
		inside := within(m.Point, base)
		switch {
		case m.V2 && mode == ModeV1, !m.V2 && mode == ModeV2:
		case m.V2 && !inside:
			outside[""] = m.Point
		case m.V2 && better(m, v2):
			v2 = m
		case m.V2:
		default:
			for _, c := range m.controllers {
				if !inside {
					outside[c] = m.Point
				} else if better(m, v1[c]) {
					v1[c] = m
				}
			}
		}
	}
	chosen := inOrder(v1)
	if v2 != nil {
		at := slices.IndexFunc(chosen, Mount.onlyPlaces)
		if at < 0 {
			at = len(chosen)
		}
		chosen = slices.Insert(chosen, at, *v2)
	}
	for _, c := range controllerNames() {
		if point, ok := outside[c]; ok && v1[c] == nil {
			return nil, fmt.Errorf("the %s controller is mounted on %s, outside of %s: name its directory as the mount",
				c, point, base)
		}
	}
	if point, ok := outside[""]; ok && len(chosen) == 0 { // next to v1 hierarchies the v2 tree is useful but not needed
		return nil, fmt.Errorf("the cgroup2 tree is mounted on %s, outside of %s: name it as the mount", point, base)
	}
	if len(chosen) == 0 || chosen[0].onlyPlaces() {
		return nil, errors.New("neither a cgroup controller nor a cgroup2 tree is mounted")
	}
	return chosen, nil
}

// inOrder returns each hierarchy once, with the controllers that were chosen in it.
func inOrder(v1 map[string]*Mount) []Mount {
	var list []Mount
	for _, c := range controllerNames() {
		m := v1[c]
		if m == nil {
			continue
		}
		if i := slices.IndexFunc(list, func(l Mount) bool { return l.Point == m.Point }); i >= 0 {
			list[i].controllers = append(list[i].controllers, c)
			continue
		}
		list = append(list, Mount{Point: m.Point, Root: m.Root, controllers: []string{c}})
	}
	return list
}
