package proc

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Tracers returns the threads that have stopped threads of the process pid with ptrace(2). Even a
// process that got SIGKILL can be stopped in its exit, as long as the tracer wants
// (PTRACE_O_TRACEEXIT). The list is empty for a process that is gone.
func Tracers(procfs *kernfs.FS, pid int) (by []int) {
	dir := strconv.Itoa(pid) + "/task"
	threads, _ := procfs.Numbers(dir)
	for _, tid := range threads {
		text := statusOf(procfs, dir+"/"+strconv.Itoa(tid), "State:", "TracerPid:")
		tracer, _ := strconv.Atoi(text[1])
		if tracer > 0 && strings.HasPrefix(text[0], "t") && !slices.Contains(by, tracer) {
			by = append(by, tracer)
		}
	}
	return by
}

// KillTracers sends SIGKILL to the processes of the user uid that keep the processes pids from
// ending, and to their tracers in turn. The caller has already sent SIGKILL to pids. For root it
// kills nothing. It continues after an error.
func KillTracers(procfs *kernfs.FS, pids []int, uid int) (killed []Process, err error) {
	var errs []error
	pids = slices.Clone(pids)
	for i := 0; uid > 0 && i < len(pids); i++ {
		for _, thread := range Tracers(procfs, pids[i]) {
			of, err := Read(procfs, thread)
			if err != nil || slices.Contains(pids, of.Leader) {
				continue
			}
			h, p, err := Hold(procfs, of.Leader)
			if err != nil {
				continue // it has ended
			}
			// The tracer is held now, so its pid cannot have been reused.
			if p.UID == uid && slices.Contains(Tracers(procfs, pids[i]), thread) {
				errs = append(errs, h.Signal(syscall.SIGKILL))
				killed, pids = append(killed, p), append(pids, p.PID)
			}
			h.Close()
		}
	}
	return killed, errors.Join(errs...)
}
