package proc

import (
	"bytes"
	"strconv"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// DumpsCore tells whether the process pid is writing a core dump, which SIGKILL would cut off. It is false for a process that is gone, and on
// kernels that do not say (before Linux 4.15, proc_pid_status(5)).
func DumpsCore(procfs *kernfs.FS, pid int) bool {
	return status(procfs, pid, "CoreDumping:") == "1"
}

// Tracer returns the process that traces the process pid and may hold it in its very end (PTRACE_O_TRACEEXIT, ptrace(2)); 0 for none.
func Tracer(procfs *kernfs.FS, pid int) int {
	n, _ := strconv.Atoi(status(procfs, pid, "TracerPid:"))
	return n
}

// status returns the value of a key of /proc/PID/status; "" when it is not there.
func status(procfs *kernfs.FS, pid int, key string) string {
	b, err := procfs.ReadFile(strconv.Itoa(pid) + "/status")
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(b) {
		if v, ok := bytes.CutPrefix(line, []byte(key)); ok {
			return string(bytes.TrimSpace(v))
		}
	}
	return ""
}

// Wchan returns the kernel function in which the process pid waits; "" when it runs, is gone, or the kernel does not say
// (proc_pid_wchan(5)).
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
