package proc

import (
	"bytes"
	"strconv"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// DumpsCore reports whether the process pid is writing a core dump, which SIGKILL would cut off. It
// is false for a process that is gone, and on kernels that do not show it (before Linux 4.15,
// proc_pid_status(5)).
func DumpsCore(procfs *kernfs.FS, pid int) bool {
	return status(procfs, pid, "CoreDumping:") == "1"
}

// Runnable reports whether any of the processes pids has a thread that is running or waiting for a
// cpu. After SIGKILL such a thread is about to end, and others may be waiting for it.
func Runnable(procfs *kernfs.FS, pids []int) bool {
	runs := func(dir string) bool {
		p, err := statFrom(procfs, filesOf(procfs, dir), dir)
		return err == nil && p.State == 'R'
	}
	for _, pid := range pids {
		if runs(strconv.Itoa(pid)) {
			return true
		}
	}
	for _, pid := range pids { // the first thread may have ended or be waiting
		dir := strconv.Itoa(pid) + "/task"
		threads, err := procfs.Numbers(dir)
		if err != nil {
			continue
		}
		for _, tid := range threads {
			if runs(dir + "/" + strconv.Itoa(tid)) {
				return true
			}
		}
	}
	return false
}

// status returns the value of a key in /proc/PID/status, or "".
func status(procfs *kernfs.FS, pid int, key string) string {
	return statusOf(procfs, strconv.Itoa(pid), key)[0]
}

// statusOf returns the values of some keys in the file status in a directory of /proc, which may be
// a thread's. The value of a missing key is "".
func statusOf(procfs *kernfs.FS, dir string, keys ...string) []string {
	values := make([]string, len(keys))
	b, err := procfs.ReadFile(dir + "/status")
	if err != nil {
		return values
	}
	for line := range bytes.Lines(b) {
		for i, key := range keys {
			if v, ok := bytes.CutPrefix(line, []byte(key)); ok {
				values[i] = string(bytes.TrimSpace(v))
			}
		}
	}
	return values
}

// Wchan returns the kernel function in which the process pid is waiting. It is "" if the process is
// running or gone, or if the kernel does not show it (proc_pid_wchan(5)).
func Wchan(procfs *kernfs.FS, pid int) string {
	b, err := procfs.ReadFile(strconv.Itoa(pid) + "/wchan")
	if err != nil {
		return ""
	}
	if name := string(bytes.TrimSpace(b)); name != "0" {
		return name
	}
	return ""
}
