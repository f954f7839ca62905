package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// controllerOrder holds the controllers that a job gets a directory of, in the order in which they are used everywhere:
// memory first, since the job's marks are kept there.
var controllerOrder = []string{"memory", "cpuset", "cpu", "cpuacct", "pids", "freezer", "devices", "hugetlb"}

const defaultPrefix = "pbs_jobs"

// Detect finds the node's cgroup hierarchies in the mount table of the calling process and decides what is v1 and
// what is v2. It makes nothing. It fails when no cgroup file system is mounted where jobs' cgroups can be.
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
	const table = "self/mountinfo"
	text, err := roots.Proc.ReadFile(table)
	if err != nil {
		return nil, fmt.Errorf("detect cgroups: %w", err)
	}
	mounts, err := parseMountinfo(text)
	if err != nil {
		return nil, &kernfs.ParseError{File: roots.Proc.Path(table), Err: err}
	}
	chosen, err := choose(mounts, base.Path("."), opt.Mode)
	if err != nil {
		return nil, fmt.Errorf("detect cgroups: %s: %w", roots.Proc.Path(table), err)
	}
	t := &Tree{proc: roots.Proc, signal: opt.Signal}
	for _, m := range chosen {
		h, err := newHierarchy(base, m, opt.Prefix+".service")
		if err != nil {
			return nil, fmt.Errorf("detect cgroups: %w", err)
		}
		t.hierarchies = append(t.hierarchies, h)
		if h.v2 {
			t.v2 = h
		}
	}
	switch {
	case t.v2 == nil:
		t.mode = ModeV1
	case len(t.hierarchies) > 1:
		t.mode = ModeHybrid
	default:
		t.mode = ModeV2
	}
	return t, nil
}

// mountDir returns root, or what replaces it.
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

func newHierarchy(base *kernfs.FS, m mount, unit string) (*hierarchy, error) {
	name := "."
	if at := base.Path("."); m.point != at {
		name = strings.TrimPrefix(m.point, at+"/")
	}
	root, err := base.Sub(name)
	if err != nil {
		return nil, err
	}
	h := &hierarchy{v2: m.v2, mount: root, root: m.root, unit: unit, leaf: "jobid", controllers: m.controllers}
	if h.v2 {
		h.leaf = "jobs"
		if h.controllers, err = delegated(root, unit); err != nil {
			return nil, err
		}
	}
	h.jobs, err = root.Sub(unit + "/" + h.leaf)
	return h, err
}

// delegated returns the controllers that reach the parent of all jobs. Before that is made, they are what the root
// passes to its children, which belongs to the node's init system and is not changed here.
func delegated(root *kernfs.FS, unit string) ([]string, error) {
	b, err := root.ReadFile(unit + "/cgroup.controllers")
	if errors.Is(err, fs.ErrNotExist) {
		b, err = root.ReadFile("cgroup.subtree_control")
	}
	if err != nil {
		return nil, err
	}
	return known(strings.Fields(string(b))), nil
}

// known returns the controllers of controllerOrder that are in names, in that order.
func known(names []string) []string {
	var list []string
	for _, c := range controllerOrder {
		if slices.Contains(names, c) {
			list = append(list, c)
		}
	}
	return list
}

// choose picks the hierarchies to use from the mount table: of several mounts of one thing the one with the shortest
// path, and only below base.
func choose(mounts []mount, base string, mode Mode) ([]mount, error) {
	var v2 *mount
	v1 := map[string]*mount{}      // by controller
	outside := map[string]string{} // by controller, "" for the v2 tree
	better := func(m, than *mount) bool { return than == nil || len(m.point) < len(than.point) }
	for i := range mounts {
		m := &mounts[i]
		m.controllers = known(m.controllers)
		inside := within(m.point, base)
		switch {
		case m.v2 && mode == ModeV1, !m.v2 && mode == ModeV2:
		case m.v2 && !inside:
			outside[""] = m.point
		case m.v2 && better(m, v2):
			v2 = m
		case m.v2:
		default:
			for _, c := range m.controllers {
				if !inside {
					outside[c] = m.point
				} else if better(m, v1[c]) {
					v1[c] = m
				}
			}
		}
	}
	chosen := inOrder(v1)
	if v2 != nil {
		chosen = append(chosen, *v2)
	}
	for _, c := range controllerOrder {
		if point, ok := outside[c]; ok && v1[c] == nil {
			return nil, fmt.Errorf("the %s controller is mounted on %s, outside of %s: name its directory as the mount", c, point, base)
		}
	}
	if point, ok := outside[""]; ok && len(chosen) == 0 { // beside v1 it is of use, not needed
		return nil, fmt.Errorf("the cgroup2 tree is mounted on %s, outside of %s: name it as the mount", point, base)
	}
	if len(chosen) == 0 {
		return nil, errors.New("neither a cgroup controller nor a cgroup2 tree is mounted")
	}
	return chosen, nil
}

// inOrder returns each hierarchy once, with those of its controllers that were chosen in it.
func inOrder(v1 map[string]*mount) []mount {
	var list []mount
	for _, c := range controllerOrder {
		m := v1[c]
		if m == nil {
			continue
		}
		if i := slices.IndexFunc(list, func(l mount) bool { return l.point == m.point }); i >= 0 {
			list[i].controllers = append(list[i].controllers, c)
			continue
		}
		list = append(list, mount{point: m.point, root: m.root, controllers: []string{c}})
	}
	return list
}
