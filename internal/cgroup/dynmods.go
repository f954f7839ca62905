package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// favorDynmods is the option of a cgroup2 mount by which cgroup_threadgroup_rwsem is always ready
// to be taken for writing.
const favorDynmods = "favordynmods"

// FavorDynmods sets the option favordynmods of the cgroup2 file system (cgroup-v2.rst, "Mounting";
// Linux 6.0) and keeps the options that are set. set is true if this call did it. The call is
// idempotent.
//
// Unless the option is set, the kernel waits for a grace period of RCU before it moves a process
// that is another's. The wait is some milliseconds, unless the kernel has just moved one. The
// option ends that wait, on v1 too, since there is one lock for all hierarchies. Each fork, execve
// and exit on the node takes a little longer in exchange. The option is the whole kernel's until
// the next boot, or until somebody mounts cgroup2 without it. Since Linux 6.18 it cannot be taken
// back altogether.
//
// FavorDynmods fails with ErrUnsupported if no v2 tree is mounted or the kernel is older.
// ErrNotInForce is for another cgroup namespace than the first, where the kernel passes over such
// options.
func (t *Tree) FavorDynmods() (set bool, err error) {
	set, err = t.favorDynmods()
	if err != nil {
		err = fmt.Errorf("%s: %w", favorDynmods, err)
	}
	return set, err
}

func (t *Tree) favorDynmods() (set bool, err error) {
	if t.v2 == nil {
		return false, fmt.Errorf("no cgroup2 tree is mounted: %w", ErrUnsupported)
	}
	before, err := t.v2Options()
	if err != nil || slices.Contains(before, favorDynmods) {
		return false, err
	}
	want := append(slices.Clone(before), favorDynmods)
	err = t.v2.mount.Remount(".", want)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return false, fmt.Errorf("%w: it needs Linux 6.0: %w", ErrUnsupported, err)
	}
	if err != nil {
		return false, explain(err)
	}
	after, err := t.v2Options()
	if err != nil {
		return false, err
	}
	missing := slices.DeleteFunc(want, func(o string) bool { return slices.Contains(after, o) })
	if len(missing) > 0 {
		return false, fmt.Errorf("%w: the mount has %q, without %q: is this another cgroup namespace than the first?",
			ErrNotInForce, after, missing)
	}
	return true, nil
}

// v2Options reads the options of the cgroup2 file system.
func (t *Tree) v2Options() ([]string, error) {
	mounts, err := Mounts(t.proc)
	if err != nil {
		return nil, err
	}
	point := t.v2.mount.Path(".")
	for _, m := range mounts {
		if m.V2 && m.Point == point {
			return ownOptions(m.Options)
		}
	}
	return nil, fmt.Errorf("cgroup2 is mounted on %s no more", point)
}

// ownOptions returns those of a cgroup2 mount's super options (proc_pid_mountinfo(5)) that are the
// file system's own. These are nsdelegate, memory_recursiveprot and their like, which are lost in a
// remount that does not name them. Others stay by themselves: those of every file system and those
// of security modules. An option that has a value is an error: cgroup2 has none by now, and it
// could not be kept.
func ownOptions(super []string) (own []string, err error) {
	for _, o := range super {
		name, _, valued := strings.Cut(o, "=")
		switch name {
		case "", "rw", "ro", "sync", "dirsync", "mand", "lazytime", "seclabel", "context", "fscontext", "defcontext",
			"rootcontext":
			continue
		}
		if valued {
			return nil, fmt.Errorf("the mount has %s, which would not survive: %w", o, ErrUnsupported)
		}
		own = append(own, o)
	}
	return own, nil
}
