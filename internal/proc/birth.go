package proc

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
)

// movesIn returns the cgroup.procs file through which a child has to be moved into join's v2
// cgroup, nil where it can be born there. A child that is cloned into a cgroup has its parent's
// cpus and NUMA nodes before Linux 6.3. Linux commit 42a11bf5c543 mended it (cpuset_fork), in
// 6.1 since 6.1.25. Linux before 5.7 clones into none.
func movesIn(join hostapi.Join, opened *files) (*os.File, error) {
	if join.CgroupDir == "" || bornInCpuset(kernelRelease()) {
		return nil, nil
	}
	if _, err := os.Stat(filepath.Join(join.CgroupDir, "cpuset.cpus")); err != nil && len(join.Tasks) > 0 {
		return nil, nil // its cpus are v1's
	}
	return opened.open(filepath.Join(join.CgroupDir, "cgroup.procs"), os.O_WRONLY)
}

// kernelRelease returns the kernel's version. Debian's releases end in .0 and its own number; the
// version is in the text beside it: "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2025-...)".
func kernelRelease() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	if _, debian, ok := strings.Cut(unix.ByteSliceToString(name.Version[:]), " Debian "); ok {
		return debian
	}
	return unix.ByteSliceToString(name.Release[:])
}

// bornInCpuset reports whether a kernel of that release is known to apply the cpuset to a child
// that is cloned into it.
func bornInCpuset(release string) bool {
	var version [3]int
	for i, part := range strings.SplitN(release, ".", 3) {
		digits := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' })
		if digits >= 0 {
			part = part[:digits]
		}
		version[i], _ = strconv.Atoi(part)
	}
	return slices.Compare(version[:], []int{6, 3, 0}) >= 0 ||
		version[0] == 6 && version[1] == 1 && version[2] >= 25
}

// forkStopped starts the program with limits of its own, or moves it into a cgroup, before its
// first instruction.
//
// Limits belong to a process, and os/exec knows none. This process may not take them on for the
// moment of the fork, with all its threads. A program that has begun to run cannot be caught up
// with. So the child is traced. The kernel stops it after its execve, before its first instruction.
// This thread, its tracer, does there what is to be done and lets it go. A program in between that
// did it for itself would count as the job's own memory and cpu time.
//
// The kernel takes the privileges of a set-user-ID program from one that is traced. PTRACE_TRACEME
// counts as a tracer that has no more rights than the child (Linux 5.2, commit 6994eefb0053). So a
// set-user-ID program is refused unless it runs as the caller. Programs that the child starts
// itself are not traced any more.
func (cmd *Spec) forkStopped(attr *syscall.ProcAttr, limits map[string]hostapi.Rlimit, procs *os.File) (*Child, error) {
	if cmd.Credential != nil && cmd.gainsPrivileges() {
		what := "with rlimits"
		if procs != nil {
			what = "in a cpuset on this kernel"
		}
		return nil, fmt.Errorf("start %s %s: a set-user-ID program loses its privileges; start it from a script",
			cmd.Path, what)
	}
	runtime.LockOSThread() // only the thread that forked may trace
	defer runtime.UnlockOSThread()
	attr.Sys.Ptrace = true
	pid, pidfd, err := cmd.forkExec(attr)
	if errors.Is(err, unix.EPERM) {
		err = fmt.Errorf("%w (or tracing is forbidden here, which rlimits and cpusets before Linux 6.3 take: "+
			"kernel.yama.ptrace_scope, a seccomp filter)", err)
	}
	if err != nil {
		return nil, err
	}
	if err := prepareStopped(pid, limits, procs); err != nil {
		// The number is its own until it is reaped.
		err = errors.Join(err, unix.Kill(pid, unix.SIGKILL))
		child := newChild(pid, pidfd)
		<-child.reaped
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return newChild(pid, pidfd), nil
}

// prepareStopped waits until a traced child stops at its execve, moves it and sets its limits, and
// lets it go. A child that is killed before is no error: it is reaped as any other.
func prepareStopped(pid int, limits map[string]hostapi.Rlimit, procs *os.File) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT|unix.WALL, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for process %d: %w", pid, err)
		}
		break
	}
	if procs != nil {
		if _, err := io.WriteString(procs, strconv.Itoa(pid)); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("enter cgroup: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if _, err := setRlimit(pid, name, limits[name], true); err != nil && !errors.Is(err, ErrGone) {
			return err
		}
	}
	if err := unix.PtraceDetach(pid); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("let process %d go: %w", pid, err)
	}
	return nil
}

// gainsPrivileges reports whether the program's file has the mode bits or the capabilities that
// give rights.
func (cmd *Spec) gainsPrivileges() bool {
	info, err := os.Stat(cmd.Path)
	if err != nil {
		return false // execve says so as well
	}
	if info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
		return true
	}
	_, err = unix.Getxattr(cmd.Path, "security.capability", nil)
	return err == nil
}
