package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// killedTracer is a tracer that got SIGKILL.
type killedTracer struct {
	Process
	in   string // the job whose cgroup it was in; "" for none
	held int    // the process whose end it held up
}

// String is what a report says of it.
func (k killedTracer) String() string {
	return fmt.Sprintf("killed pid %d (%q) of uid %d, which traced pid %d and held up its end",
		k.PID, k.Comm, k.UID, k.held)
}

// mostTracers is how many tracers one call kills: each takes a descriptor until it returns.
const mostTracers = 256

// killTracers sends SIGKILL to the processes that keep the processes pids of a job, which have got
// SIGKILL themselves, from ending. A tracer may hold a thread in its very end until it ends itself
// (PTRACE_O_TRACEEXIT, ptrace(2)). A tracer of the tracer is killed with it. A call kills 256 at
// most; more take further calls.
//
// The user uid could have killed each of them himself (kill(2)); for root nothing is killed. JobOf
// tells in which job's cgroup a process is; it is asked about a process once more when its tracer
// is held. killTracers goes on after an error.
func killTracers(procfs *kernfs.FS, pids []int, uid int, job string,
	jobOf func(int) (string, bool, error)) (killed []killedTracer, err error) {
	type traced struct {
		pid   int
		still func() bool // the number is the process's
	}
	var errs []error
	var all []traced
	for _, pid := range pids {
		all = append(all, traced{pid, func() bool { id, ok, err := jobOf(pid); return err == nil && ok && id == job }})
	}
	seen := map[int]bool{}
	for _, pid := range pids { // which have got their signal
		seen[pid] = true
	}
	for i := 0; i < len(all); i++ {
		of := all[i]
		for tid, thread := range Holders(procfs, of.pid) {
			if len(killed) == mostTracers {
				return killed, errors.Join(errs...)
			}
			h, p, err := tracer(procfs, thread)
			if err != nil {
				errs = append(errs, unlessGone(err))
				continue
			}
			// The tracer is held by now, so no later process of its number is meant.
			if seen[p.PID] || Holders(procfs, of.pid)[tid] != thread || h.Signal(0) != nil || !of.still() {
				h.Close()
				continue
			}
			seen[p.PID] = true
			in, _, _ := jobOf(p.PID)
			may, err := mayKill(procfs, uid, h)
			if err == nil && may {
				err = h.Signal(syscall.SIGKILL)
			}
			if err != nil || !may {
				errs = append(errs, unlessGone(err))
				h.Close()
				continue
			}
			defer h.Close()
			killed = append(killed, killedTracer{p, in, of.pid})
			all = append(all, traced{p.PID, func() bool { return h.Signal(0) == nil }})
		}
	}
	return killed, errors.Join(errs...)
}

// unlessGone is err, and nil where it is ErrGone.
func unlessGone(err error) error {
	if errors.Is(err, ErrGone) {
		return nil
	}
	return err
}

// Holders returns which threads of the process pid are stopped by a tracer, and by which thread
// each. In a process that has got SIGKILL these are held in their end. Holders is empty for a
// process that is gone.
func Holders(procfs *kernfs.FS, pid int) map[int]int {
	by, _, _ := holders(procfs, pid)
	return by
}

// holders is Holders, and reports whether there are threads that wait in FUSE, and others that have
// not ended.
func holders(procfs *kernfs.FS, pid int) (by map[int]int, fuse, others bool) {
	dir := strconv.Itoa(pid) + "/task"
	threads, err := procfs.Numbers(dir)
	if err != nil {
		return nil, false, false
	}
	by = map[int]int{}
	for _, tid := range threads {
		at := dir + "/" + strconv.Itoa(tid)
		text := statusOf(procfs, at, "State:", "TracerPid:")
		tracer, _ := strconv.Atoi(text[1])
		switch {
		case tracer > 0 && strings.HasPrefix(text[0], "t"):
			by[tid] = tracer
		case strings.HasPrefix(text[0], "D") && waitsInFUSE(procfs, at):
			fuse = true
		case text[0] != "" && !strings.HasPrefix(text[0], "Z") && !strings.HasPrefix(text[0], "X"):
			others = true
		}
	}
	return by, fuse, others
}

// tracer takes hold of the process whose thread it is that traces.
func tracer(procfs *kernfs.FS, thread int) (*Held, Process, error) {
	p, err := Read(procfs, thread)
	if err != nil {
		return nil, Process{}, err
	}
	h, leader, err := Hold(procfs, p.Leader)
	if err != nil {
		return nil, Process{}, err
	}
	if again, err := Read(procfs, thread); err != nil || again.Leader != leader.PID {
		h.Close()
		return nil, Process{}, fmt.Errorf("hold tracer %d: %w", thread, ErrGone)
	}
	return h, leader, nil
}

// mayKill reports whether the user uid may send the process SIGKILL. Its real or saved user is uid
// then, or its user namespace is in one that uid has made (kill(2), user_namespaces(7)).
func mayKill(procfs *kernfs.FS, uid int, h *Held) (bool, error) {
	if uid <= 0 {
		return false, nil
	}
	pid := strconv.Itoa(h.PID())
	ids := strings.Fields(statusOf(procfs, pid, "Uid:")[0])
	if len(ids) != 4 {
		return false, h.Signal(0)
	}
	if name := strconv.Itoa(uid); ids[0] == name || ids[2] == name {
		return true, h.Signal(0)
	}
	ns, err := procfs.OpenNamespace(h.PID(), "user")
	if err != nil {
		return false, gone("open user namespace of process "+pid, err)
	}
	for {
		owner, err := unix.IoctlGetUint32(int(ns.Fd()), unix.NS_GET_OWNER_UID)
		if err == nil && int(owner) == uid {
			ns.Close()
			return true, h.Signal(0)
		}
		up := -1
		if err == nil {
			up, err = unix.IoctlRetInt(int(ns.Fd()), unix.NS_GET_PARENT)
		}
		ns.Close()
		if errors.Is(err, unix.EPERM) { // it is the first one
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("user namespace of process %s: %w", pid, err)
		}
		ns = os.NewFile(uintptr(up), "user namespace")
	}
}

// AllHeld reports whether nothing is left of the processes pids, which have got SIGKILL, but held
// threads. A tracer holds these, or they wait for a FUSE file system. Such threads take no cpu.
// AllHeld is false where there are no processes.
func AllHeld(procfs *kernfs.FS, pids []int) bool {
	for _, pid := range pids {
		if by, fuse, others := holders(procfs, pid); len(by) == 0 && !fuse || others {
			return false
		}
	}
	return len(pids) > 0
}

// ReleaseMemory has the kernel take the memory of a process that has got SIGKILL and cannot end
// (process_mrelease(2), Linux 5.15). ReleaseMemory fails with ErrGone when there is none, and is
// idempotent.
func ReleaseMemory(pid int) error {
	h, err := hold(pid)
	if err != nil {
		return err
	}
	defer h.Close()
	if _, _, errno := unix.Syscall(unix.SYS_PROCESS_MRELEASE, uintptr(h.pidfd), 0, 0); errno != 0 {
		return gone(fmt.Sprintf("release memory of process %d", pid), errno)
	}
	return nil
}
