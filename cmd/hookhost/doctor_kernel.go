package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// kernel is what doctor knows of this node's cgroups.
type kernel struct {
	cfg    *config.File
	roots  kernfs.Roots
	tree   *cgroup.Tree
	mounts []cgroupMount
	v2     *kernfs.FS // the v2 tree below /sys/fs/cgroup; nil without

	major, minor int               // of Linux; 0 where it does not say
	known        map[string]string // /proc/cgroups: "0" when the controller was disabled at boot, else "1"
	bound        map[string]string // /proc/cgroups: number of the v1 hierarchy, "0" for none
}

// cgroupMount is a line of mountinfo about cgroups.
type cgroupMount struct {
	point, root, super string
	v2, readOnly       bool
}

// lookAt reads it. It fails where jobs can have no cgroup at all.
func lookAt(roots kernfs.Roots, cfg *config.File) (*kernel, error) {
	k := &kernel{cfg: cfg, roots: roots, known: map[string]string{}, bound: map[string]string{}}
	var err error
	seen := *cfg
	if seen.Cgroup.Systemd == "require" { // whether it is there is examineSystemd's to say
		seen.Cgroup.Systemd = "auto"
	}
	if k.tree, err = detectIn(roots, &seen); err != nil {
		return nil, err
	}
	text, err := roots.Proc.ReadFile("self/mountinfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		f, super := strings.Fields(before), strings.Fields(after)
		if len(f) < 6 || len(super) < 3 || super[0] != "cgroup" && super[0] != "cgroup2" {
			continue
		}
		m := cgroupMount{point: f[4], root: f[3], super: super[2], v2: super[0] == "cgroup2", readOnly: slices.Contains(strings.Split(f[5], ","), "ro")}
		k.mounts = append(k.mounts, m)
		base := roots.Cgroup.Path(".")
		if name, below := strings.CutPrefix(m.point+"/", base+"/"); m.v2 && below {
			if k.v2, err = roots.Cgroup.Sub(strings.TrimSuffix("./"+name, "/")); err != nil {
				return nil, err
			}
		}
	}
	if release, err := roots.Proc.ReadFile("sys/kernel/osrelease"); err == nil {
		k.major, k.minor = parseRelease(string(release))
	}
	if table, err := roots.Proc.ReadFile("cgroups"); err == nil {
		for line := range strings.Lines(string(table)) {
			if f := strings.Fields(line); len(f) == 4 && !strings.HasPrefix(line, "#") {
				k.bound[f[0]], k.known[f[0]] = f[1], f[3]
			}
		}
	}
	return k, nil
}

// parseRelease reads "6.12.3-arch1"; 0, 0 for what is none.
func parseRelease(text string) (major, minor int) {
	if n, _ := fmt.Sscanf(text, "%d.%d", &major, &minor); n < 2 {
		return 0, 0
	}
	return major, minor
}

// since tells whether this is Linux major.minor or newer; yes where that is not known.
func (k *kernel) since(major, minor int) bool {
	return k.major == 0 || k.major > major || k.major == major && k.minor >= minor
}

// has tells whether a v2 interface file is there: in the jobs' parent, or, before that was made, in any other cgroup.
// unknown: there is no cgroup to look into.
func (k *kernel) has(file string) (there, unknown bool) {
	if k.v2 == nil {
		return false, false
	}
	names, err := k.v2.Dirs(".")
	if err != nil || len(names) == 0 {
		return false, true
	}
	return slices.ContainsFunc(names, func(name string) bool { return k.v2.Exists(name + "/" + file) }), false
}

// words returns the words of a v2 file; nil when it cannot be read.
func (k *kernel) words(file string) []string {
	if k.v2 == nil {
		return nil
	}
	b, err := k.v2.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}

// trusted tells whether extended attributes can be kept on cgroups: marks of jobs are.
func (k *kernel) trusted() error {
	dir := k.v2
	for _, m := range k.mounts {
		if name, below := strings.CutPrefix(m.point, k.roots.Cgroup.Path(".")+"/"); dir == nil && below {
			var err error
			if dir, err = k.roots.Cgroup.Sub(name); err != nil {
				return err
			}
		}
	}
	if dir == nil {
		return nil
	}
	_, err := dir.Xattr(".", "trusted.hookhost.doctor")
	if err == nil || errors.Is(err, unix.ENODATA) {
		return nil
	}
	return err
}
