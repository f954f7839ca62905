package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// rights are what the daemon may do where one runs, else what this process may.
type rights struct {
	uid          int    // of this process
	daemon       int    // the daemon's pid; 0 where the rest is of this process
	capabilities uint64 // CapEff of /proc/PID/status
	known        bool   // capabilities were read
	limitedAS    bool   // RLIMIT_AS is not unlimited
}

// readRights reads the rights of the daemon, or where there is none, or it is in another pid namespace (its pid is then nobody's
// here, or somebody else's), those of this process.
func readRights(daemon int) rights {
	r := rights{uid: os.Geteuid(), daemon: daemon}
	own, err := os.ReadFile("/proc/self/comm")
	theirs, daemonErr := os.ReadFile(fmt.Sprintf("/proc/%d/comm", daemon))
	if daemon <= 0 || err != nil || daemonErr != nil || string(own) != string(theirs) {
		r.daemon = 0
	}
	var as unix.Rlimit
	if err := unix.Prlimit(r.daemon, unix.RLIMIT_AS, nil, &as); err == nil { // 0 is this process
		r.limitedAS = as.Cur != unix.RLIM_INFINITY || as.Max != unix.RLIM_INFINITY
	}
	status := "/proc/self/status"
	if r.daemon != 0 {
		status = fmt.Sprintf("/proc/%d/status", r.daemon)
	}
	f, err := os.Open(status)
	if err != nil {
		return r
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, found := strings.CutPrefix(lines.Text(), "CapEff:"); found {
			r.capabilities, err = strconv.ParseUint(strings.TrimSpace(text), 16, 64)
			r.known = err == nil
		}
	}
	return r
}

// lostRlimits is what prlimit(2) refuses without CAP_SYS_RESOURCE: to raise a hard limit, and any
// change where the process has other ids than the caller. What pbs_mom launches is still root's
// when execjob_launch comes, and pbs_mom has set RLIMIT_AS to pvmem by then (openpbs
// src/resmom/linux/mom_mach.c, mom_set_limits).
const lostRlimits = "-l rlimit_... and pvmem hold in what pbs_mom starts, unless a limit would have to be raised; " +
	"where a job asks for them, 'hookhost attach' of its owner's process and 'hookhost run -u' fail"

// capabilities(7) that hookhost uses, and what is lost without one.
var capabilities = []struct {
	bit    int
	name   string
	blocks bool
	lost   string
}{
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN", true, "cgroups cannot be marked as a job's, nor devices be filtered on cgroup v2"},
	{unix.CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE", false, "files of job owners may be out of reach"},
	{unix.CAP_KILL, "CAP_KILL", false, "processes of job owners cannot be signalled, only killed by cgroup.kill"},
	{unix.CAP_SETUID, "CAP_SETUID", false, "hookhost run -u and hooks with user=pbsuser do not work"},
	{unix.CAP_SETGID, "CAP_SETGID", false, "hookhost run -u and hooks with user=pbsuser do not work"},
	{unix.CAP_SYS_RESOURCE, "CAP_SYS_RESOURCE", false, lostRlimits},
	{unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE", false, "memory maps of job owners' processes cannot be read (pmem)"},
	{unix.CAP_SYSLOG, "CAP_SYSLOG", false, "reports of OOM kills may not name the process"},
}

func examineRights(r rights) []finding {
	user := ok("user", "root")
	if r.uid != 0 {
		user = degraded("user", fmt.Sprintf("uid %d", r.uid), "run doctor as root, as the daemon is: some of what follows may look different to it")
	}
	findings := []finding{user}
	if !r.known || r.uid != 0 && r.daemon == 0 {
		return findings
	}
	missingOf, all := "missing: ", "all that hookhost uses"
	if r.daemon != 0 {
		missingOf, all = fmt.Sprintf("missing in the daemon (pid %d): ", r.daemon), fmt.Sprintf("the daemon (pid %d) has all that hookhost uses", r.daemon)
	}
	missing := 0
	for _, c := range capabilities {
		if r.capabilities&(1<<c.bit) != 0 {
			continue
		}
		missing++
		f := degraded(c.name, missingOf+c.lost, "give it to the daemon: CapabilityBoundingSet= of its unit, --cap-add of its container")
		if c.blocks {
			f.Status, f.Blocks = statusImpossible, true
		}
		findings = append(findings, f)
	}
	if missing == 0 {
		findings = append(findings, ok("capabilities", all))
	}
	return findings
}

// calls are the kernel's answers to system calls that it may not have, or that a container may forbid. nil: it is there.
type calls struct{ pidfd, clone3 error }

// probeCalls makes each of them in a way that does nothing: the answer to what makes no sense is EINVAL.
func probeCalls() calls {
	var c calls
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if c.pidfd = err; err == nil {
		unix.Close(fd)
	}
	_, _, errno := unix.Syscall(unix.SYS_CLONE3, 0, 0, 0)
	c.clone3 = there(errno)
	return c
}

func there(errno unix.Errno) error {
	switch errno {
	case 0, unix.EINVAL, unix.E2BIG, unix.EFAULT:
		return nil
	}
	return errno
}

func examineCalls(c calls) []finding {
	why := func(err error) string {
		if errors.Is(err, unix.EPERM) {
			return "forbidden (" + err.Error() + ")"
		}
		return "not there (" + err.Error() + ")"
	}
	pidfd := ok("pidfd", "a signal cannot hit a process that came after the one it was meant for")
	if c.pidfd != nil {
		pidfd = degraded("pidfd", "pidfd_open is "+why(c.pidfd), "Linux 5.3 or newer; in a container, allow it in the seccomp profile")
	}
	clone := ok("clone3", "there")
	if c.clone3 != nil {
		clone = degraded("clone3", why(c.clone3)+": the first process of a job is moved into its v2 cgroup", "Linux 5.7 or newer; in a container, allow it in the seccomp profile")
	}
	return []finding{pidfd, clone}
}
