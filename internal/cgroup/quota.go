package cgroup

import (
	"errors"
	"io/fs"
	"path"
	"strings"
)

// Quota returns how many cpus' time all jobs together may use, by the quotas of the cgroups that they are in; limited is false where there is
// none, and where jobs have no cpu controller. On v1 no job can have a greater one (kernel/sched/core.c, tg_cfs_schedulable_down).
func (t *Tree) Quota() (cpus float64, limited bool, err error) {
	h := t.with("cpu")
	if h == nil {
		return 0, false, nil
	}
	knobs := v1Knobs
	if h.v2 {
		knobs = v2Knobs
	}
	for _, dir := range []string{".", h.unit, path.Join(h.unit, h.leaf)} { // the mount point may be a container's cgroup
		var l Limits
		for _, k := range knobs {
			if k.controller != "cpu" || k.file != "cpu.max" && k.file != "cpu.cfs_period_us" && k.file != "cpu.cfs_quota_us" {
				continue
			}
			text, err := h.mount.ReadFile(path.Join(dir, k.file))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = k.set(&l, strings.TrimSpace(string(text)))
			}
			if err != nil {
				return 0, false, err
			}
		}
		if l.Quota <= 0 || l.Period <= 0 {
			continue
		}
		if share := float64(l.Quota) / float64(l.Period); !limited || share < cpus {
			cpus, limited = share, true
		}
	}
	return cpus, limited, nil
}
