package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/cgroups/v3"
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// kernel is the known state of this node's cgroups.
type kernel struct {
	cfg     *config.File
	roots   kernfs.Roots
	systemd bool // the first process is systemd
	tree    *cgroup.Tree
	mounts  []cgroup.Mount
	v2      *kernfs.FS // the v2 tree below /sys/fs/cgroup; nil if there is none

	major, minor int                             // of Linux; 0 if unknown
	controllers  map[string]procfs.CgroupSummary // /proc/cgroups, by name
	pressure     bool                            // the node's pressure is counted (PSI)
}

// openKernel reads that state. It fails if jobs cannot have cgroups at all.
//
// It sees the tree as hook cgroup does (hooks/cgroup/parent.go), which prepares it.
func openKernel(roots kernfs.Roots, proc procfs.FS, cfg *config.File, systemdRuns bool) (*kernel, error) {
	k := &kernel{cfg: cfg, roots: roots, systemd: systemdRuns, controllers: map[string]procfs.CgroupSummary{}}
	opt := cgroup.Options{Prefix: cfg.Cgroup.Prefix, Mount: cfg.Cgroup.Mount, Enable: cfg.Cgroup.EnableControllers,
		Controllers: cfg.Placing(), Delegated: systemdRuns && cfg.Cgroup.Systemd != "off"}
	if !systemdRuns {
		opt.EnableIfThere = cfg.Controllers()
	}
	var err error
	if k.tree, err = cgroup.Detect(roots, opt); err != nil {
		return nil, err
	}
	if k.mounts, err = cgroup.Mounts(roots.Proc); err != nil {
		return nil, err
	}
	for _, m := range k.mounts {
		if dir, err := k.dir(m); m.V2 && err == nil {
			k.v2 = dir
		}
	}
	if release, err := proc.SysctlStrings("kernel.osrelease"); err == nil && len(release) > 0 {
		k.major, k.minor = parseRelease(release[0])
	}
	summary, _ := proc.CgroupSummarys() // without it, doctor reports a missing controller without the reason
	for _, c := range summary {
		k.controllers[c.SubsysName] = c
	}
	_, err = proc.PSIStatsForResource("cpu")
	k.pressure = err == nil
	return k, nil
}

// dir opens the root of a mount below /sys/fs/cgroup.
func (k *kernel) dir(m cgroup.Mount) (*kernfs.FS, error) {
	name, below := strings.CutPrefix(m.Point+"/", k.roots.Cgroup.Path(".")+"/")
	if !below {
		return nil, fmt.Errorf("%s is not below %s", m.Point, k.roots.Cgroup.Path("."))
	}
	return k.roots.Cgroup.Sub(strings.TrimSuffix("./"+name, "/"))
}

// withoutCgroups is the finding if jobs cannot have cgroups. The library's Legacy proves nothing:
// it is also the answer on a node without any cgroup mount (utils.go, Mode).
func withoutCgroups(err error, mode cgroups.CGMode) Finding {
	advice := "mount cgroup v2 (mount -t cgroup2 none /sys/fs/cgroup), " +
		"or the v1 controllers memory, cpuset, cpu, cpuacct and pids"
	if mode == cgroups.Unified || mode == cgroups.Hybrid {
		advice = "a cgroup v2 tree is mounted below /sys/fs/cgroup: correct mount in [cgroup]"
	}
	return blocking("cgroups", err.Error(), advice)
}

// parseRelease parses "6.12.3-arch1"; it returns 0, 0 for an invalid text.
func parseRelease(text string) (major, minor int) {
	if n, _ := fmt.Sscanf(text, "%d.%d", &major, &minor); n < 2 {
		return 0, 0
	}
	return major, minor
}

// since reports whether this is Linux major.minor or newer; true if that is unknown.
func (k *kernel) since(major, minor int) bool {
	return k.major == 0 || k.major > major || k.major == major && k.minor >= minor
}

// has reports whether a v2 interface file exists in the jobs' parent. Before that was created, it
// looks in any other cgroup. unknown: there is no cgroup with files.
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

// words returns the words of a v2 file, or nil if it cannot be read.
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

// trusted fails if cgroups cannot have the extended attributes that mark them as a job's.
func (k *kernel) trusted() error {
	dir := k.v2
	for _, m := range k.mounts {
		if at, err := k.dir(m); dir == nil && err == nil {
			dir = at
		}
	}
	if dir == nil {
		return nil
	}
	_, err := dir.Xattr(".", "trusted.hookhost.doctor")
	if errors.Is(err, unix.ENODATA) {
		return nil
	}
	return err
}

// feature is what an interface file makes possible.
type feature struct {
	what       string
	name, file string // for cgroup.Tree.Has, and in cgroup v2
	yes, no    string
	advice     string
}

func (k *kernel) examineFeature(f feature) Finding {
	there, notYet := k.has(f.file)
	switch {
	case k.tree.Has(f.name) || there:
		return ok(f.what, f.yes)
	case notYet:
		return unknown(f.what)
	}
	return degraded(f.what, f.no, f.advice)
}
