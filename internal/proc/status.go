package proc

import (
	"bytes"
	"strconv"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// DumpsCore reports whether the process pid is writing a core dump, which SIGKILL would cut off.
// The result is false for a process that is gone, and on kernels that do not say (before Linux
// 4.15, proc_pid_status(5)).
func DumpsCore(procfs *kernfs.FS, pid int) bool {
	return status(procfs, pid, "CoreDumping:") == "1"
}

// Runnable reports whether any of the processes pids has a thread that runs or waits for a cpu.
// After SIGKILL such a thread is on its way to its end, and others may wait for it.
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
	for _, pid := range pids { // of some the first thread has ended, or waits
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

// status returns the value of a key of /proc/PID/status; "" when it is not there.
func status(procfs *kernfs.FS, pid int, key string) string {
	return statusOf(procfs, strconv.Itoa(pid), key)[0]
}

// statusOf returns the values of some keys of the file status in a directory of /proc, which may be
// a thread's. A key that is not there has "".
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

// Wchan returns the kernel function in which the process pid waits; "" when it runs, is gone, or
// the kernel does not say (proc_pid_wchan(5)).
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
