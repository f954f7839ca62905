package cgroup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Freeze stops every process of the job where it is and waits until all have stopped. It needs no signal and no process
// sees it. When ctx ends first the job is thawed again, as far as it had stopped. It is idempotent.
func (j *Job) Freeze(ctx context.Context) error {
	err := j.setFrozen(ctx, true)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("freeze job %s: %w", j.id, j.found(err))
	if ctx.Err() != nil {
		if undo := j.writeFrozen(false); undo != nil {
			err = errors.Join(err, undo)
		}
	}
	return err
}

// Thaw lets the job's processes go on and waits until none is frozen. It is idempotent.
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

// writeFrozen asks for a state without waiting for it. The v2 freezer is preferred: what it froze can be killed.
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

// freezesV2 returns the v2 directory if the kernel freezes there, which it does since Linux 5.2.
func (j *Job) freezesV2() (directory, bool) {
	d, ok := j.v2()
	if !ok {
		return d, false
	}
	_, hasV1 := j.with("freezer")
	return d, !hasV1 || d.Exists(freezeFile)
}

// state is how freezer.state spells it.
func state(frozen bool) string {
	if frozen {
		return "FROZEN"
	}
	return "THAWED"
}

// awaitState waits for freezer.state, which the kernel brings up to date only when it is read and announces to nobody
// (cgroup-v1/freezer-subsystem.rst): it is asked again at growing intervals.
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
