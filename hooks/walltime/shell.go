package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/proc"
)

// signalShell sends a warning's signal to the job's leading shell, if it is in the job's cgroup.
// sent is the number of processes signalled, which is 0 or 1.
func (h *hook) signalShell(j *cgroup.Job, job *hostapi.Job, w config.Warning) (sent int, err error) {
	pids, err := j.Processes()
	if errors.Is(err, cgroup.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	shell, found := h.shell(pids, job)
	if !found {
		return 0, nil
	}
	// The check is repeated while the process is held, since its pid may have been reused.
	return j.SignalSome(w.Signal, func(pid int) bool {
		p, err := proc.Read(h.roots.Proc, pid)
		return err == nil && pid == shell.PID && p.StartTime == shell.StartTime
	})
}

// shell returns the process of the job that MoM started first. It leads the job's session. In an
// interactive job, a process of MoM outside the job leads the session, and the shell is its child
// (openpbs src/resmom/start_exec.c, finish_exec).
func (h *hook) shell(pids []int, job *hostapi.Job) (shell proc.Process, found bool) {
	if slices.Contains(pids, job.SessionID) {
		shell, err := proc.Read(h.roots.Proc, job.SessionID)
		return shell, err == nil
	}
	for _, pid := range pids {
		p, err := proc.Read(h.roots.Proc, pid)
		if err == nil && p.Session == job.SessionID && p.PPID == job.SessionID {
			return p, true
		}
	}
	return proc.Process{}, false
}

// mostTold limits how many processes are named.
const mostTold = 10

// unkillableText names processes that are left after SIGKILL, and what they are waiting for in the
// kernel.
func (h *hook) unkillableText(pids []int) string {
	text := "unkillable: left after SIGKILL: 1 process:"
	if len(pids) != 1 {
		text = fmt.Sprintf("unkillable: left after SIGKILL: %d processes:", len(pids))
	}
	for i, pid := range pids {
		if i == mostTold {
			return text + fmt.Sprintf(" and %d more", len(pids)-i)
		}
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(" %d", pid)
		if p, err := proc.Read(h.roots.Proc, pid); err == nil {
			text += fmt.Sprintf(" (%q) %c", p.Comm, p.State)
		}
		if at := proc.Wchan(h.roots.Proc, pid); at != "" {
			text += " in " + at
		}
		for _, thread := range proc.Tracers(h.roots.Proc, pid) {
			text += fmt.Sprintf(", held by process %d, which traces it", thread)
			break
		}
	}
	return text
}
