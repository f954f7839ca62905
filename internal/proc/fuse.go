package proc

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// A process that has asked a FUSE file system waits for the answer whatever SIGKILL it gets
// (fs/fuse/dev.c, request_wait_answer). So does a process that waits for a lock that such a one
// holds. A user's own program may serve the file system, outside of the job, and never answer. The
// process need not see the mount, since files are passed on by descriptor. The kernel lets go of
// all who wait when such a connection is aborted (Documentation/filesystems/fuse.rst).

// fuseDir is where the kernel has the connections, in /sys.
const fuseDir = "fs/fuse/connections"

// connections follows the connections of FUSE file systems while a job is being killed. The zero
// value has not looked yet.
type connections struct {
	looks int
	stuck map[string]int // owners of those with requests that waited at each look
}

// fewestLooks is from how many looks on a connection counts as one that does not answer.
const fewestLooks = 3

// refresh notes which connections have requests waiting. A server that answers has none at some
// look.
func (c *connections) refresh(sysfs *kernfs.FS) {
	names, err := sysfs.Names(fuseDir)
	if err != nil {
		names = nil
	}
	now := map[string]int{}
	for _, name := range names {
		dir := fuseDir + "/" + name
		if n, err := sysfs.Uint(dir + "/waiting"); err == nil && n > 0 {
			now[name] = ownerOf(sysfs, dir)
		}
	}
	if c.looks++; c.looks == 1 {
		c.stuck = now
		return
	}
	maps.DeleteFunc(c.stuck, func(name string, uid int) bool { now, waits := now[name]; return !waits || now != uid })
}

// abort aborts the connections of the user uid that had requests waiting at each of three looks or
// more, and returns their numbers. Root's stay. The owner of a connection is the user that has
// mounted it.
func (c *connections) abort(sysfs *kernfs.FS, uid int) (aborted []string, err error) {
	var errs []error
	for _, number := range slices.Sorted(maps.Keys(c.stuck)) {
		if uid <= 0 || c.looks < fewestLooks || c.stuck[number] != uid {
			continue
		}
		delete(c.stuck, number)
		if err := sysfs.Write(fuseDir+"/"+number+"/abort", "1"); err != nil {
			errs = append(errs, fmt.Errorf("abort FUSE connection %s of uid %d: %w", number, uid, err))
			continue
		}
		aborted = append(aborted, number)
	}
	return aborted, errors.Join(errs...)
}

// abortedText is what a report says of aborted connections.
func abortedText(numbers []string, uid int) string {
	more := ""
	if n := len(numbers) - mostNamed; n > 0 {
		numbers, more = numbers[:mostNamed], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("aborted FUSE connection %s%s of uid %d, which did not answer and held up the job's end",
		strings.Join(numbers, ", "), more, uid)
}

// ownerOf returns the owner of a directory of /sys; -1 for none.
func ownerOf(sysfs *kernfs.FS, dir string) int {
	d, err := sysfs.OpenFile(dir, unix.O_RDONLY)
	if err != nil {
		return -1
	}
	defer d.Close()
	var st unix.Stat_t
	if unix.Fstat(int(d.Fd()), &st) != nil {
		return -1
	}
	return int(st.Uid)
}

// Uninterruptible reports whether a thread of one of the processes waits in the kernel for what no
// signal ends (state D, proc_pid_stat(5)).
func Uninterruptible(procfs *kernfs.FS, pids []int) bool {
	return slices.ContainsFunc(pids, func(pid int) bool {
		dir := strconv.Itoa(pid) + "/task"
		threads, _ := procfs.Numbers(dir)
		return slices.ContainsFunc(threads, func(tid int) bool {
			return strings.HasPrefix(statusOf(procfs, dir+"/"+strconv.Itoa(tid), "State:")[0], "D")
		})
	})
}

// waitsInFUSE reports whether the thread in the directory dir of /proc does so, by its stack in the
// kernel (proc_pid_stack(5)).
func waitsInFUSE(procfs *kernfs.FS, dir string) bool {
	stack, err := procfs.ReadFile(dir + "/stack")
	return err == nil && (bytes.Contains(stack, []byte("fuse")) || bytes.Contains(stack, []byte("request_wait_answer")))
}
