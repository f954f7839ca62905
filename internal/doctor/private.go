package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/disk"
)

// examinePrivate reports which jobs have a TMPDIR of theirs alone, and from where their leftovers
// are removed. daemon is the daemon's pid, or 0.
func (k *kernel) examinePrivate(proc procfs.FS, daemon int) []Finding {
	var findings []Finding
	p := k.cfg.Private
	same, known := sameMounts(proc, daemon, 1)
	if p.TMP {
		findings = append(findings, examineTmp(p, same, known))
	}
	if p.RuntimeDir {
		findings = append(findings, examineRuntimeDir(same, known))
	}
	if !p.Cleans() {
		return findings
	}
	const what = "leftovers of jobs"
	if len(p.CleanDirs) > 0 && !k.since(5, 6) {
		return append(findings, impossible(what, "this kernel has no openat2(2): nothing is removed from clean_dirs",
			"use Linux 5.6 or newer, or set clean_dirs = [] in [private]"))
	}
	places := slices.Clone(p.CleanDirs)
	if p.CleanIPC {
		places = append(places, "System V IPC")
	}
	findings = append(findings, ok(what, "after a user's last job removed from "+strings.Join(places, ", ")))
	for _, dir := range p.CleanDirs {
		findings = append(findings, examineCleanDir(dir)...)
	}
	return findings
}

const notMounted = "remove PrivateTmp=, ProtectSystem=, ProtectHome= and similar settings from hookhost.service"

// examineTmp takes whether the daemon and the node's first process see the same mounts, if known.
func examineTmp(p config.Private, same, known bool) Finding {
	const what = "TMPDIR of jobs"
	if known && !same {
		return blocking(what, "the daemon has a mount namespace of its own, so no job would see its TMPDIR or start",
			notMounted)
	}
	size := "half of the node's memory"
	if p.TMPSize > 0 {
		size = p.TMPSize.String()
	}
	return ok(what, fmt.Sprintf("in memory, %s each, and counted as memory of the job", size))
}

// examineRuntimeDir is examineTmp for XDG_RUNTIME_DIR.
func examineRuntimeDir(same, known bool) Finding {
	const what = "XDG_RUNTIME_DIR of jobs"
	if known && !same {
		return blocking(what, "the daemon has a mount namespace of its own, so no job would see it or start",
			notMounted)
	}
	return ok(what, "in memory, as long as a job of its user is on this host")
}

// sameMounts reports whether two processes are in the same mount namespace. known is false without
// the permission to see that.
func sameMounts(proc procfs.FS, a, b int) (same, known bool) {
	var inodes [2]uint32
	for i, pid := range []int{a, b} {
		p, err := proc.Proc(pid)
		if err != nil || pid == 0 {
			return false, false
		}
		all, err := p.Namespaces()
		if err != nil {
			return false, false
		}
		inodes[i] = all["mnt"].Inode
	}
	return inodes[0] == inodes[1], true
}

// examineCleanDir returns a finding if nothing can be removed from a directory.
func examineCleanDir(dir string) []Finding {
	const what = "clean_dirs"
	var st unix.Stat_t
	err := unix.Stat(dir, &st)
	if err == nil {
		err = disk.CheckSticky(&st)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOENT) && dir == "/dev/mqueue":
		return []Finding{degraded(what, dir+" does not exist: POSIX message queues of jobs stay",
			"mkdir /dev/mqueue && mount -t mqueue mqueue /dev/mqueue")}
	case errors.Is(err, unix.ENOENT):
		return []Finding{degraded(what, dir+" does not exist", "remove it from clean_dirs in [private]")}
	}
	return []Finding{impossible(what, fmt.Sprintf("%s: %v: nothing is removed from it", dir, err),
		"remove it from clean_dirs in [private]")}
}
