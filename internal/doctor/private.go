package doctor

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/disk"
	"github.com/hookhost/hookhost/internal/mountns"
	"github.com/hookhost/hookhost/internal/pbs"
)

// examinePrivate reports which directories jobs have for themselves, and from where their leftovers
// are removed.
func (k *kernel) examinePrivate(proc procfs.FS, may rights) []Finding {
	var findings []Finding
	p := k.cfg.Private
	same, known := sameMounts(proc, may.daemon, 1)
	findings = append(findings, examineTmpfs(p, known && !same)...)
	if len(p.Dirs) > 0 {
		scope, err := k.roots.Proc.ReadFile("sys/kernel/yama/ptrace_scope")
		findings = append(findings, k.examineDirs(may, err == nil && strings.TrimSpace(string(scope)) == "3"))
		findings = append(findings, k.examineBases()...)
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

// examineTmpfs examines the directories that are mounted at a job's begin in the node's namespace.
// hidden means that the daemon is in another one.
func examineTmpfs(p config.Private, hidden bool) (findings []Finding) {
	size := "half of the node's memory"
	if p.TMPSize > 0 {
		size = p.TMPSize.String()
	}
	for _, d := range []struct {
		on       bool
		variable string
		found    string
	}{
		{p.TMP, "TMPDIR", "in memory, " + size + " each, and counted as memory of the job"},
		{p.RuntimeDir, "XDG_RUNTIME_DIR", "in memory, as long as a job of its user is on this host"},
	} {
		switch what := d.variable + " of jobs"; {
		case !d.on:
		case hidden:
			findings = append(findings, blocking(what, "the daemon is not in the node's mount namespace, so no job "+
				"would see its "+d.variable+" or start",
				"remove PrivateTmp=, ProtectSystem=, ProtectHome= and similar settings from hookhost.service"))
		default:
			findings = append(findings, ok(what, d.found))
		}
	}
	return findings
}

// examineSizes reports directories in memory that are larger than the node's memory and swap. The
// kernel accepts any size (mm/shmem.c).
func examineSizes(p config.Private, most pbs.Size) []Finding {
	var larger []string
	if p.TMP && p.TMPSize > most {
		larger = append(larger, "tmp_size = "+p.TMPSize.String())
	}
	for _, d := range p.Dirs {
		if d.Size > most {
			larger = append(larger, "size = "+d.Size.String()+" of "+d.Path)
		}
	}
	if len(larger) == 0 {
		return nil
	}
	return []Finding{degraded("size in memory", fmt.Sprintf("%s: more than the node's memory and swap, %s: "+
		"memory runs out before a write fails", strings.Join(larger, ", "), most), "lower it in [private]")}
}

// examineDirs makes a mount namespace as a job gets one. untraceable means that no process of this
// node can be traced.
func (k *kernel) examineDirs(may rights, untraceable bool) Finding {
	const what = "private directories"
	switch {
	case !k.since(5, 6):
		return blocking(what, "this kernel has no pidfd_getfd(2), so no job would start",
			"use Linux 5.6 or newer, or remove dirs from [private]")
	case untraceable:
		return blocking(what, "kernel.yama.ptrace_scope is 3, so no job of pbs_mom would start",
			"set it to 2 and boot again, or remove dirs from [private]")
	case may.known && may.uid == 0 && !(may.has(unix.CAP_SYS_CHROOT) && may.has(unix.CAP_SYS_PTRACE)):
		return blocking(what, "the daemon lacks CAP_SYS_CHROOT or CAP_SYS_PTRACE, so no job would start",
			"add the drop-in of docs/private.md to hookhost.service, or remove dirs from [private]")
	case may.uid != 0:
		return unknownToUsers(what)
	}
	var paths []string
	advice := "correct dirs in [private]"
	for _, d := range k.cfg.Private.Dirs {
		paths = append(paths, d.Path)
		if d.Base == "" {
			continue
		}
		if err := disk.CheckDir(d.Base); err != nil {
			return blocking(what, fmt.Sprintf("base %s: %v: no job would start", d.Base, err),
				"make it a directory of root's that nobody else can write to, or "+advice)
		}
	}
	ns, err := mountns.New(func() error {
		for _, d := range k.cfg.Private.Dirs {
			m := mountns.Directory{Path: d.Path, From: d.Base, Size: int64(d.Size), Options: d.Options}
			if err := m.Mount(); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, mountns.ErrHeld) {
		advice = "fuser -v " + strings.Join(paths, " ") + " lists the processes that have it open"
	}
	if err != nil {
		return blocking(what, err.Error()+": no job would start", advice)
	}
	ns.Close()
	return ok(what, "each job has its own "+strings.Join(paths, ", "))
}

// examineBases reports directories on disk without room for the jobs' files.
func (k *kernel) examineBases() (findings []Finding) {
	var bases []string
	for _, d := range k.cfg.Private.Dirs {
		if d.Base != "" && !slices.Contains(bases, d.Base) {
			bases = append(bases, d.Base)
		}
	}
	for _, base := range bases {
		if v, err := readVolume(base); err == nil && v.made { // examineDirs reports one that is missing
			findings = append(findings, v.examineBase(k.cfg.Cgroup.Prefix)...)
		}
	}
	return findings
}

// examineBase returns a finding if the file system is full. Jobs have their files in the directory
// of that name.
func (v volume) examineBase(jobs string) []Finding {
	left, list := pbs.Size(v.free).Text(), "du -s "
	switch {
	case v.noInodes:
		left, list = "no inodes", "du -s --inodes "
	case v.free >= leastRoom:
		return nil
	}
	return []Finding{degraded("base "+v.dir,
		left+" left on its file system: jobs go back to the queue, or cannot write there",
		"make room: "+list+filepath.Join(v.dir, jobs, "*")+" lists what jobs use")}
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
