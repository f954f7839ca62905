package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// keeper is the child of the unit that contains the unit's process, because a v2 cgroup that passes
// down controllers cannot contain processes. systemd 254 and newer start the process there
// (DelegateSubgroup=). With older versions hookhost moves it there.
const keeper = "keeper"

// prepareV2 creates the unit and the jobs' parent, and passes the available controllers down to the
// jobs.
func (h *hierarchy) prepareV2() error {
	if err := h.enableInRoot(); err != nil {
		return err
	}
	unit, err := h.mount.Sub(h.unit)
	if err != nil {
		return err
	}
	if h.delegated && !unit.Exists(".") {
		return fmt.Errorf("%s: %w", unit.Path("."), ErrNoUnit)
	}
	if err := makeDir(unit); err != nil {
		return err
	}
	if err := makeDir(h.jobs); err != nil {
		return err
	}
	if err := h.pass(unit, h.vacate); err != nil {
		return err
	}
	if err := h.pass(h.jobs, vacant); err != nil {
		return err
	}
	passed, err := words(h.jobs, "cgroup.subtree_control")
	if err != nil {
		return err
	}
	passed = known(passed, h.asked)
	h.names.Store(&passed)
	return nil
}

// invocation is the extended attribute by which systemd recognizes a unit's cgroup (since version
// 232).
const invocation = "trusted.invocation_id"

// NotSystemds returns the parent of all jobs in the v2 tree if systemd should have created it but
// did not. Otherwise it returns "". Such a parent has only the controllers that happen to be in the
// root's cgroup.subtree_control.
func (t *Tree) NotSystemds() string {
	h := t.v2
	if h == nil || !h.delegated || !h.mount.Exists(h.unit) {
		return ""
	}
	if _, err := h.mount.Xattr(h.unit, invocation); !errors.Is(err, unix.ENODATA) {
		return ""
	}
	return h.mount.Path(h.unit)
}

// enableInRoot enables the controllers from the configuration in the root of the tree, in addition
// to those that the init system enabled. It leaves enabled controllers alone.
func (h *hierarchy) enableInRoot() error {
	if len(h.enable)+len(h.enableIfThere) == 0 {
		return nil
	}
	there, err := words(h.mount, "cgroup.controllers")
	if err != nil {
		return err
	}
	for _, c := range h.enable {
		if !slices.Contains(there, c) {
			return fmt.Errorf("enable controller %s: %s has %v: this kernel does not have it, or it is in use on v1",
				c, h.mount.Path("cgroup.controllers"), there)
		}
	}
	want := slices.DeleteFunc(slices.Concat(h.enable, h.enableIfThere), func(c string) bool {
		return !slices.Contains(there, c)
	})
	err = enable(h.mount, want)
	// Only the root of the whole hierarchy lacks cgroup.type. It alone may have processes beside
	// its children.
	if errors.Is(err, unix.EBUSY) && h.mount.Exists("cgroup.type") {
		return fmt.Errorf("%w: what is mounted here is not the root of the tree "+
			"but the cgroup of a container, with processes in it", err)
	}
	return err
}

// pass gives dir's children the controllers that dir has and jobs use. Before that, empty makes
// sure that no process is in dir.
func (h *hierarchy) pass(dir *kernfs.FS, empty func(*kernfs.FS) error) error {
	there, err := words(dir, "cgroup.controllers")
	if err != nil {
		return err
	}
	on, err := words(dir, "cgroup.subtree_control")
	if err != nil {
		return err
	}
	want := slices.DeleteFunc(known(there, h.asked), func(c string) bool { return slices.Contains(on, c) })
	if len(want) == 0 {
		return nil
	}
	for tries := 0; ; tries++ {
		if err := empty(dir); err != nil {
			return err
		}
		err := enable(dir, want)
		// A process that was just starting when it was moved may be back.
		if !errors.Is(err, unix.EBUSY) || tries == 3 {
			return err
		}
	}
}

// enable passes controllers down to the children of dir, one at a time so that an error names the
// culprit.
func enable(dir *kernfs.FS, controllers []string) error {
	const file = "cgroup.subtree_control"
	on, err := words(dir, file)
	if err != nil {
		return err
	}
	for _, c := range controllers {
		if slices.Contains(on, c) {
			continue
		}
		if err := dir.Write(file, "+"+c); err != nil {
			return explain(err)
		}
	}
	return nil
}

// vacate moves the unit's own processes to its keeper. None of them belongs to a job: each is held,
// and checked to be in the unit's own cgroup.
func (h *hierarchy) vacate(unit *kernfs.FS) error {
	pids, err := words(unit, "cgroup.procs")
	if err != nil || len(pids) == 0 {
		return err
	}
	home, err := unit.Sub(keeper)
	if err != nil {
		return err
	}
	if err := makeDir(home); err != nil {
		return err
	}
	for _, word := range pids {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return fmt.Errorf("%s: %w", unit.Path("cgroup.procs"), err)
		}
		if pid == 0 {
			return fmt.Errorf("%s: a process of another pid namespace is in it: "+
				"hookhost has to see the node's processes", unit.Path("."))
		}
		if err := h.vacateOne(unit, home, pid); err != nil {
			return explain(err)
		}
	}
	return nil
}

// vacateOne moves one process out of the unit's own cgroup.
func (h *hierarchy) vacateOne(unit, home *kernfs.FS, pid int) error {
	p, alive, err := holdProcess(pid, h.signal)
	if err != nil || !alive {
		return err
	}
	defer p.close()
	still, err := words(unit, "cgroup.procs")
	if err != nil || !slices.Contains(still, strconv.Itoa(pid)) {
		return err
	}
	if err := enter(home, p, nil); !errors.Is(err, ErrEnded) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// vacant fails if somebody put processes beside the jobs, because hookhost must not move them.
func vacant(dir *kernfs.FS) error {
	pids, err := words(dir, "cgroup.procs")
	if err != nil || len(pids) == 0 {
		return err
	}
	return fmt.Errorf("%s: processes %v are in it, outside of any job: move them elsewhere",
		dir.Path("cgroup.procs"), pids)
}
