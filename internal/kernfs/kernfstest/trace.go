package kernfstest

import (
	"fmt"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Numbers of ptrace(2).
const (
	ptraceSeize     = 0x4206
	ptraceTraceExit = 0x40
)

// TraceExit makes this process trace threads, given by their ids. They stop in their exit until
// this process ends (PTRACE_O_TRACEEXIT, ptrace(2)).
func TraceExit(threads ...string) error {
	traced := make(chan error)
	go func() {
		runtime.LockOSThread() // the tracer is a thread
		for _, thread := range threads {
			tid, err := strconv.Atoi(thread)
			if err != nil {
				traced <- err
				return
			}
			_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, ptraceSeize, uintptr(tid), 0, ptraceTraceExit, 0, 0)
			if errno != 0 {
				traced <- fmt.Errorf("trace %d: %w", tid, errno)
				return
			}
		}
		traced <- nil
		select {}
	}()
	return <-traced
}
