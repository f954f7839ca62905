package proc

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// Rlimit is a resource limit in the unit of getrlimit(2).
type Rlimit struct {
	Soft, Hard uint64
}

// RlimitInfinity is RLIM_INFINITY.
const RlimitInfinity = ^uint64(0)

// rlimits are the resource limits of getrlimit(2) that can be set here, by name without RLIMIT_.
var rlimits = map[string]int{
	"as": unix.RLIMIT_AS, "core": unix.RLIMIT_CORE, "data": unix.RLIMIT_DATA, "fsize": unix.RLIMIT_FSIZE,
	"memlock": unix.RLIMIT_MEMLOCK, "nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC,
	"stack": unix.RLIMIT_STACK,
}

// SetRlimits sets limits of the process id, by name, with prlimit(2). The caller needs
// CAP_SYS_RESOURCE for another user's process and for raising a hard limit. Limits that mayRaise
// does not accept are cut to the process's current hard limit. SetRlimits fails with ErrGone if the
// process is gone. Limits that were set before an error stay. If the pid is reused meanwhile, the
// other process keeps its limits.
func SetRlimits(procfs *kernfs.FS, id hostapi.ProcessID, limits map[string]Rlimit,
	mayRaise func(name string) bool) error {
	if len(limits) == 0 {
		return nil
	}
	alive := func() bool { return Check(procfs, id) == nil }
	h, err := Open(procfs, id)
	switch {
	case err == nil: // a process that has not been reaped keeps its pid
		defer h.Close()
		alive = func() bool { return h.Signal(0) == nil }
	case !errors.Is(err, errors.ErrUnsupported):
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		old, err := setRlimit(id.PID, name, limits[name], mayRaise(name))
		if !alive() {
			if err == nil {
				unix.Prlimit(id.PID, rlimits[name], &old, nil)
			}
			return fmt.Errorf("set rlimit %s of process %d: %w", name, id.PID, ErrGone)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setRlimit does not touch a limit that already has the right value, so that needs no privilege.
func setRlimit(pid int, name string, l Rlimit, mayRaise bool) (old unix.Rlimit, err error) {
	resource, ok := rlimits[name]
	if !ok {
		return old, fmt.Errorf("set rlimit %s of process %d: no such resource: %w", name, pid, errors.ErrUnsupported)
	}
	want := unix.Rlimit{Cur: l.Soft, Max: l.Hard}
	err = unix.Prlimit(pid, resource, nil, &old)
	if err == nil {
		if !mayRaise {
			want = unix.Rlimit{Cur: min(want.Cur, old.Max), Max: min(want.Max, old.Max)}
		}
		if old == want {
			return old, nil
		}
		err = unix.Prlimit(pid, resource, &want, &old)
	}
	switch {
	case err == nil:
		return old, nil
	case errors.Is(err, unix.ESRCH):
		err = ErrGone
	case errors.Is(err, unix.EPERM):
		err = fmt.Errorf("%w (to raise a hard limit, or to limit another user's process, takes CAP_SYS_RESOURCE)", err)
	}
	return old, fmt.Errorf("set rlimit %s of process %d to %s:%s: %w", name, pid, rlimitText(l.Soft),
		rlimitText(l.Hard), err)
}

func rlimitText(n uint64) string {
	if n == RlimitInfinity {
		return "unlimited"
	}
	return fmt.Sprint(n)
}
