package cgroup

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Suspend is Freeze for good: when ctx ends before every process has stopped it fails, but the job stays freezing, and a
// process that the kernel holds (state D) stops as soon as the kernel lets go of it. What enters the job later stops as it
// enters. The error names what has not stopped. Thaw ends it. It is idempotent.
func (j *Job) Suspend(ctx context.Context) error {
	err := j.setFrozen(ctx, true)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%s: %w", j.moving(), err)
	}
	return fmt.Errorf("suspend job %s: %w", j.id, j.found(err))
}

// moving describes the processes of the job that run or are in the kernel, among which are those that have not frozen.
// The v2 freezer has a process sleep (S), the one of v1 shows it as D.
func (j *Job) moving() string {
	pids, err := j.Processes()
	if err != nil {
		return err.Error()
	}
	pids = slices.DeleteFunc(pids, func(pid int) bool {
		b, err := j.tree.proc.ReadFile(fmt.Sprintf("%d/stat", pid))
		end := strings.LastIndexByte(string(b), ')')
		return err != nil || end >= 0 && end+2 < len(b) && strings.IndexByte("STt", b[end+2]) >= 0
	})
	return "not stopped: " + j.tree.list(pids)
}

// Frozen tells whether the job is frozen or about to be, whoever asked for it. It fails with ErrUnsupported where the
// kernel has no freezer and with ErrNotFound when the job has no cgroup.
func (j *Job) Frozen() (bool, error) {
	d, ok := j.freezesV2()
	file, thawed := freezeFile, "0"
	if !ok {
		if d, ok = j.with("freezer"); !ok {
			return false, fmt.Errorf("neither %s nor a freezer controller: %w", freezeFile, ErrUnsupported)
		}
		file, thawed = freezerFile, state(false)
	}
	b, err := d.ReadFile(file)
	if err != nil {
		return false, fmt.Errorf("is job %s frozen: %w", j.id, j.found(err))
	}
	return strings.TrimSpace(string(b)) != thawed, nil
}
