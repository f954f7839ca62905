package doctor

import (
	"errors"
	"fmt"
	"os"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// rights are the daemon's permissions if one runs, else those of this process.
type rights struct {
	uid          int    // of this process
	daemon       int    // the daemon's pid; 0 if the other fields describe this process
	capabilities uint64 // CapEff of /proc/PID/status
	known        bool   // capabilities were read
}

// readRights reads the rights of the daemon, else of this process. It ignores a daemon in another
// pid namespace, whose pid here is unused or belongs to another process.
func readRights(proc procfs.FS, daemon int) rights {
	r := rights{uid: os.Geteuid()}
	p, err := proc.Self()
	if err != nil {
		return r
	}
	if d, err := proc.Proc(daemon); err == nil && daemon > 0 {
		own, ownErr := p.Comm()
		if name, err := d.Comm(); err == nil && ownErr == nil && name == own {
			p, r.daemon = d, daemon
		}
	}
	if status, err := p.NewStatus(); err == nil {
		r.capabilities, r.known = status.CapEff, true
	}
	return r
}

func (r rights) has(capability int) bool { return r.capabilities&(1<<capability) != 0 }

// lostRlimits describes what prlimit(2) refuses without CAP_SYS_RESOURCE: to raise a hard limit,
// and any change to a process with other ids than the caller's. At execjob_launch the program of
// pbs_mom still runs as root, and pbs_mom has set RLIMIT_AS to pvmem (openpbs
// src/resmom/linux/mom_mach.c, mom_set_limits).
const lostRlimits = "for what pbs_mom starts, [rlimits], manage_rlimit_as, -l rlimit_... and pvmem cannot raise " +
	"limits; if one has to be set, 'hookhost attach' of another user's process and 'hookhost run -u' fail"

const lostUsers = "hookhost run -u does not work"

// The capabilities(7) that hookhost uses, and what is lost without each.
var capabilities = []struct {
	bit    int
	name   string
	blocks bool
	lost   string
}{
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN", true,
		"cgroups cannot be marked as a job's, nor devices be filtered on cgroup v2"},
	{unix.CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE", false, "files of job owners may be out of reach"},
	{unix.CAP_KILL, "CAP_KILL", false, "processes of job owners cannot be signalled, only killed by cgroup.kill"},
	{unix.CAP_SETUID, "CAP_SETUID", false, lostUsers},
	{unix.CAP_SETGID, "CAP_SETGID", false, lostUsers},
	{unix.CAP_SYS_RESOURCE, "CAP_SYS_RESOURCE", false, lostRlimits},
	{unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE", false, "memory maps of job owners' processes cannot be read (pmem)"},
	{unix.CAP_SYSLOG, "CAP_SYSLOG", false, "reports of OOM kills may not name the process"},
}

// examine reports which capabilities are missing.
func (r rights) examine() []Finding {
	user := ok("user", "root")
	if r.uid != 0 {
		user = degraded("user", fmt.Sprintf("uid %d", r.uid),
			"run doctor as root, like the daemon: some findings below may be different for it")
	}
	findings := []Finding{user}
	if !r.known || r.uid != 0 && r.daemon == 0 {
		return findings
	}
	missing, all := "missing: ", "all that hookhost uses"
	if r.daemon != 0 {
		missing = fmt.Sprintf("missing in the daemon (pid %d): ", r.daemon)
		all = fmt.Sprintf("the daemon (pid %d) has all that hookhost uses", r.daemon)
	}
	for _, c := range capabilities {
		if r.has(c.bit) {
			continue
		}
		f := degraded(c.name, missing+c.lost,
			"give it to the daemon: CapabilityBoundingSet= of its unit, --cap-add of its container")
		if c.blocks {
			f.Status, f.Blocks = Impossible, true
		}
		findings = append(findings, f)
	}
	if len(findings) == 1 {
		findings = append(findings, ok("capabilities", all))
	}
	return findings
}

// probePidfd returns the kernel's answer to pidfd_open(2), or nil if the call exists.
func probePidfd() error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func refusal(err error) string {
	if errors.Is(err, unix.EPERM) {
		return "forbidden (" + err.Error() + ")"
	}
	return "not there (" + err.Error() + ")"
}

func examinePidfd(err error) Finding {
	const what = "pidfd"
	if err != nil {
		return degraded(what, "pidfd_open is "+refusal(err),
			"Linux 5.3 or newer; in a container, allow it in the seccomp profile")
	}
	return ok(what, "a signal cannot reach a later process with the same pid")
}
