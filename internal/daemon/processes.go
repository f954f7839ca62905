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

// processes are those of this machine, for the host and callers of the API.
type processes struct {
	procfs *kernfs.FS
	jobs   *jobs
	died   func() // is called when a process that was waited for has ended
}

// Process returns what an attach has to know of a process.
func (p *processes) Process(pid int) (api.Process, error) {
	status, err := proc.Read(p.procfs, pid)
	if errors.Is(err, proc.ErrGone) || err == nil && status.Dead() {
		return api.Process{}, fmt.Errorf("process %d: %w", pid, api.ErrNotFound)
	}
	return api.Process{UID: status.UID, StartTime: status.StartTime}, err
}

// Number returns the number here of the process that caller calls pid.
func (p *processes) Number(caller, pid int) (int, error) {
	n, err := proc.Translate(p.procfs, caller, pid)
	return n, notFound(err)
}

// notFound has the API know a process that is gone.
func notFound(err error) error {
	if errors.Is(err, proc.ErrGone) {
		err = fmt.Errorf("%w: %w", err, api.ErrNotFound)
	}
	return err
}

// JobOf returns the job in whose cgroup a process is.
func (p *processes) JobOf(ctx context.Context, pid int) (api.Job, error) { return p.jobs.of(ctx, pid) }

// Check fails with api.ErrNotFound unless the process still runs.
func (p *processes) Check(id hostapi.ProcessID) error {
	return notFound(proc.Check(p.procfs, id))
}

// Alive reports whether the process still runs. A process that cannot be read does.
func (p *processes) Alive(id hostapi.ProcessID) bool { return proc.Alive(p.procfs, id) }

// Wait returns nil when the process has ended, or ctx's error when that ended first.
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
