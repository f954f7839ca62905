package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/topology"
)

// examineParent reports the limits of all jobs together in the configuration. If hookhost has a job
// here, it compares them with the kernel's. Otherwise the kernel may have those of pbs_cgroups.
func (k *kernel) examineParent() Finding {
	const what = "limits of all jobs"
	node, err := topology.Scan(k.roots)
	if err != nil {
		return degraded(what, err.Error(), "")
	}
	set, err := k.hasJob() // asked first, because begin sets the limits before it makes a cgroup
	switch {
	case errors.Is(err, fs.ErrPermission):
		return unknownToUsers(what)
	case err != nil:
		return degraded(what, err.Error(), "")
	}
	now, err := k.tree.ParentLimits()
	if err != nil && !errors.Is(err, cgroup.ErrNotFound) {
		return degraded(what, err.Error(), "")
	}
	var parts, above []string
	add := func(part string, is *int64, most int64, text func(int64) string) {
		switch {
		case !set || is != nil && *is <= most:
			parts = append(parts, part+" "+text(most))
		case is == nil:
			above = append(above, fmt.Sprintf("%s %s is not in force", part, text(most)))
		default:
			above = append(above, fmt.Sprintf("%s %s is in force instead of %s", part, text(*is), text(most)))
		}
	}
	size := func(n int64) string { return pbs.Size(n).KB() }
	if k.cfg.Memory.Enabled && k.tree.Has("memory") {
		add("mem", now.Mem, k.cfg.Memory.Left(node.MemTotal), size)
	}
	if k.cfg.Cpuset.Enabled && k.tree.Has("cpuset") {
		left, is, err := k.parentCPUs(node)
		switch {
		case err != nil:
			return degraded(what, err.Error(), "")
		case set && !is.Minus(left).IsEmpty():
			above = append(above, fmt.Sprintf("cpus %s are in force instead of %s", is, cmp.Or(left.String(), "none")))
		case !left.IsEmpty(): // else no job begins, as the line for cpus says
			parts = append(parts, "cpus "+left.String())
		}
	}
	if k.cfg.Pids.Enabled && k.tree.Has("pids") && node.Tasks > 0 {
		tasks := k.cfg.Pids.Left(node.Tasks)
		if most, err := k.tree.PidsAbove(); err == nil && most != nil && *most < tasks {
			return degraded(what, fmt.Sprintf("%s.service, or a container that it is in, has pids.max %d: "+
				"jobs have that instead of %d", k.cfg.Cgroup.Prefix, *most, tasks), "give the unit TasksMax=infinity")
		}
		add("tasks", now.Pids, tasks, func(n int64) string { return fmt.Sprint(n) })
	}
	switch {
	case len(above) > 0:
		return degraded(what, strings.Join(above, "; ")+": jobs have more",
			"the daemon lowers it when it uses this configuration, or at an exechost_periodic after they use less")
	case len(parts) == 0:
		return ok(what, "none: neither [memory] nor [cpuset] nor [pids] is enabled")
	}
	return ok(what, strings.Join(parts, ", "))
}

// hasJob reports whether a job of hookhost has a cgroup. The begin of the first one sets the limits
// of all jobs. Only root can list the cgroups.
func (k *kernel) hasJob() (bool, error) {
	ids, err := k.tree.JobIDs()
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		j, err := k.tree.Job(id)
		if err != nil {
			return false, err
		}
		if _, found, err := j.FindJobMark(); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// parentCPUs returns the cpus that the configuration leaves for jobs, and those in force.
func (k *kernel) parentCPUs(node *topology.Node) (left, is kernfs.IDSet, err error) {
	above, err := k.tree.CPUsAbove()
	if err != nil {
		return left, is, err
	}
	is, err = k.tree.CPUs()
	return k.cfg.Cpuset.Left(node.Online.Intersect(above)), is, err
}
