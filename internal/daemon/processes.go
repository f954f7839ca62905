package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

// processes answers questions about this machine's processes, for the host and callers of the API.
type processes struct {
	procfs *kernfs.FS
	jobs   *jobs
	died   func() // called when a process that was waited for has ended
}

// Process returns the information about a process that an attach needs.
func (p *processes) Process(pid int) (api.Process, error) {
	status, err := proc.Read(p.procfs, pid)
	if errors.Is(err, proc.ErrGone) || err == nil && status.Dead() {
		return api.Process{}, fmt.Errorf("process %d: %w", pid, api.ErrNotFound)
	}
	return api.Process{UID: status.UID, StartTime: status.StartTime}, err
}

// Number translates a pid of the caller's namespace into this one.
func (p *processes) Number(caller, pid int) (int, error) {
	n, err := proc.Translate(p.procfs, caller, pid)
	return n, notFound(err)
}

// notFound converts the error for a process that is gone to the API's.
func notFound(err error) error {
	if errors.Is(err, proc.ErrGone) {
		err = fmt.Errorf("%w: %w", err, api.ErrNotFound)
	}
	return err
}

// JobOf returns the job whose cgroup contains a process.
func (p *processes) JobOf(ctx context.Context, pid int) (api.Job, error) { return p.jobs.of(ctx, pid) }

// Check fails with api.ErrNotFound unless the process still runs.
func (p *processes) Check(id hostapi.ProcessID) error {
	return notFound(proc.Check(p.procfs, id))
}

// Alive reports whether the process still runs. A process that cannot be read counts as running.
func (p *processes) Alive(id hostapi.ProcessID) bool { return proc.Alive(p.procfs, id) }

// Wait returns nil when the process has ended, or ctx's error if ctx ends first.
func (p *processes) Wait(ctx context.Context, id hostapi.ProcessID) error {
	h, err := proc.Open(p.procfs, id)
	if err == nil {
		err = h.Wait(ctx)
		h.Close()
	} else if errors.Is(err, proc.ErrGone) {
		err = nil
	}
	if err == nil {
		p.died()
	}
	return err
}
