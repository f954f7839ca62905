package cgroup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/proc"
)

// Suspend stops every process of the job and waits until all have stopped. It sends no signal, and
// the processes do not notice. If ctx ends first, Suspend fails and names the processes that have
// not stopped, but the job keeps freezing. A process in the kernel (state D) stops when it leaves
// the kernel. A process that joins the job later stops when it joins. Thaw ends a suspension.
// Suspend is idempotent.
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

// Thaw lets the job's processes continue and waits until none is frozen. It is idempotent.
func (j *Job) Thaw(ctx context.Context) error {
	if err := j.setFrozen(ctx, false); err != nil {
		return fmt.Errorf("thaw job %s: %w", j.id, j.found(err))
	}
	return nil
}

const (
	freezeFile  = "cgroup.freeze"
	freezerFile = "freezer.state"
)

func (j *Job) setFrozen(ctx context.Context, frozen bool) error {
	if err := j.writeFrozen(frozen); err != nil {
		return err
	}
	if d, ok := j.freezesV2(); ok {
		var want uint64
		if frozen {
			want = 1
		}
		return d.await(ctx, "frozen", want)
	}
	d, _ := j.with("freezer")
	return d.awaitState(ctx, state(frozen))
}

// writeFrozen requests a state without waiting for it. It prefers the v2 freezer, because processes
// frozen there can be killed.
func (j *Job) writeFrozen(frozen bool) error {
	if d, ok := j.freezesV2(); ok {
		value := "0"
		if frozen {
			value = "1"
		}
		return d.Write(freezeFile, value)
	}
	d, ok := j.with("freezer")
	if !ok {
		return fmt.Errorf("neither %s nor a freezer controller: %w", freezeFile, ErrUnsupported)
	}
	return d.Write(freezerFile, state(frozen))
}

// freezesV2 returns the v2 directory if the kernel can freeze there (Linux 5.2 and newer).
func (j *Job) freezesV2() (directory, bool) {
	d, ok := j.v2()
	if !ok {
		return d, false
	}
	_, hasV1 := j.with("freezer")
	return d, !hasV1 || d.Exists(freezeFile)
}

// state returns the value for freezer.state.
func state(frozen bool) string {
	if frozen {
		return "FROZEN"
	}
	return "THAWED"
}

// awaitState polls freezer.state at growing intervals. The kernel updates the file only when it is
// read, and sends no events (cgroup-v1/freezer-subsystem.rst).
func (d directory) awaitState(ctx context.Context, want string) error {
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		b, err := d.ReadFile(freezerFile)
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(b)) == want {
			return nil
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// moving describes the processes of the job that are running or in the kernel. Those that have not
// frozen are among them. A process frozen by v2 is shown as sleeping (S), one frozen by v1 as D.
func (j *Job) moving() string {
	pids, err := j.Processes()
	if err != nil {
		return err.Error()
	}
	pids = slices.DeleteFunc(pids, func(pid int) bool {
		p, err := proc.Read(j.tree.proc, pid)
		return err != nil || strings.IndexByte("STt", p.State) >= 0
	})
	return "not stopped: " + j.tree.list(pids)
}

// Frozen reports whether the job is frozen or about to be, no matter who requested it. It fails
// with ErrUnsupported if the kernel has no freezer and with ErrNotFound if the job has no cgroup.
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
