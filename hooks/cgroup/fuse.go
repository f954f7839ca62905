package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/cgroup"
)

// A process that has asked a FUSE file system waits for the answer whatever SIGKILL it gets
// (fs/fuse/dev.c, request_wait_answer). A user's own program may serve it, outside of the job, and
// never answer. The kernel lets go of all who wait when such a connection is aborted
// (Documentation/filesystems/fuse.rst).

// connections is where the kernel has them, in /sys.
const connections = "fs/fuse/connections"

// abortFUSE aborts the job owner's FUSE connections that a process of the job sees which waits in
// FUSE. Done has those that were aborted before. Notes tell of them.
func (h *hook) abortFUSE(j *cgroup.Job, done map[string]bool) (notes []string) {
	r, err := j.Record()
	if err != nil || r.Begin.Job.Owner.UID <= 0 {
		return nil
	}
	pids, err := j.Processes()
	if err != nil {
		return nil
	}
	for _, pid := range pids {
		if !h.waitsInFUSE(pid) {
			continue
		}
		for _, number := range h.fuseMounts(pid) {
			dir := connections + "/" + number
			if done[number] || h.ownerOf(dir) != r.Begin.Job.Owner.UID {
				continue
			}
			done[number] = true
			if err := h.roots.Sys.Write(dir+"/abort", "1"); err != nil {
				h.logOf(j.ID()).Warn(err)
				continue
			}
			text := fmt.Sprintf("aborted FUSE connection %s of uid %d, which pid %d waited for at its end",
				number, r.Begin.Job.Owner.UID, pid)
			h.logOf(j.ID()).Warn(text)
			if notes = append(notes, text); len(notes) == mostHeld {
				return notes
			}
		}
	}
	return notes
}

// waitsInFUSE tells whether a thread of the process does so in the kernel, by its stack there
// (proc_pid_stack(5)).
func (h *hook) waitsInFUSE(pid int) bool {
	dir := strconv.Itoa(pid) + "/task"
	threads, _ := h.roots.Proc.Numbers(dir)
	return slices.ContainsFunc(threads, func(tid int) bool {
		stack, err := h.roots.Proc.ReadFile(dir + "/" + strconv.Itoa(tid) + "/stack")
		if err != nil {
			return false
		}
		return bytes.Contains(stack, []byte("fuse")) || bytes.Contains(stack, []byte("request_wait_answer"))
	})
}

// fuseMounts returns the numbers of the connections of the FUSE file systems that the process sees:
// the minor device numbers of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
func (h *hook) fuseMounts(pid int) (numbers []string) {
	text, err := h.roots.Proc.ReadFile(strconv.Itoa(pid) + "/mountinfo")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		mount, fs, _ := strings.Cut(line, " - ")
		kind, _, _ := strings.Cut(fs, " ")
		fields := strings.Fields(mount)
		if kind != "fuse" && !strings.HasPrefix(kind, "fuse.") || len(fields) < 3 {
			continue
		}
		if minor, ok := strings.CutPrefix(fields[2], "0:"); ok {
			numbers = append(numbers, minor)
		}
	}
	return numbers
}

// ownerOf returns the owner of a directory of /sys; -1 for none. A connection's is the user that
// has mounted it.
func (h *hook) ownerOf(dir string) int {
	f, err := h.roots.Sys.OpenFile(dir, unix.O_RDONLY)
	if err != nil {
		return -1
	}
	defer f.Close()
	var st unix.Stat_t
	if n, ok := f.(interface{ Fd() uintptr }); !ok || unix.Fstat(int(n.Fd()), &st) != nil {
		return -1
	}
	return int(st.Uid)
}
