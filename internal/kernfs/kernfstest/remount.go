package kernfstest

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mountOptions are those of cgroup2 (cgroup2_fs_parameters), in the order in which
// cgroup_show_options writes them.
var mountOptions = []string{
	"nsdelegate", "favordynmods", "memory_localevents", "memory_recursiveprot", "memory_hugetlb_accounting",
	"pids_localevents",
}

// Mounted has the v2 tree mounted with options from the start, as an init system does.
func Mounted(options ...string) Option { return func(k *Kernel) { k.options = options } }

// Inner has everybody in a cgroup namespace other than the kernel's first, where options of the v2
// tree are taken and passed over (apply_cgroup_root_flags). Nothing else is different.
func Inner() Option { return func(k *Kernel) { k.inner = true } }

// Remount replaces the options of the v2 tree (cgroup_reconfigure). Options of a newer kernel are
// named to Without.
func (c *cgroupfs) Remount(name string, options []string) error {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	err := c.k.remount(name, options)
	c.k.record(Op{Op: "remount", Path: name, Value: strings.Join(options, ","), Err: err})
	return err
}

func (k *Kernel) remount(name string, options []string) error {
	t, err := k.find(name)
	switch {
	case err != nil:
		return err
	case t.group == nil || t.knob != nil || t.group.parent != nil || !t.group.h.v2: // v1 is nobody's to remount here
		return unix.EINVAL
	}
	for _, o := range options {
		if !slices.Contains(mountOptions, o) || k.lacks(o) {
			return unix.EINVAL
		}
	}
	if err := k.fail("remount", name); err != nil {
		return err
	}
	if !k.inner {
		h := t.group.h
		h.options = slices.DeleteFunc(slices.Clone(mountOptions),
			func(o string) bool { return !slices.Contains(options, o) })
	}
	return nil
}
