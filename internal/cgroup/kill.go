package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// KillResult tells what Kill found and how long it took.
type KillResult struct {
	Processes int           // alive when Kill began
	Took      time.Duration // until the last one was gone
}

// Kill ends every process of the job with SIGKILL and returns when none is left. Processes that
// fork meanwhile, that left their session or that are in v1 hierarchies only are included. A job
// without processes or without a cgroup is no mistake. When ctx ends first Kill fails with
// ErrNotEmpty and names what is left. State D is a process that the kernel does not let go of. The
// result holds in any case.
//
// Before the signal the job gets the greatest share of cpu time that there is, and its quota is
// lifted. Both last: nothing of a job runs after SIGKILL but its end.
func (j *Job) Kill(ctx context.Context) (KillResult, error) {
	start := time.Now()
	pids, err := j.Processes()
	if errors.Is(err, ErrNotFound) {
		return KillResult{}, nil
	}
	if err == nil {
		var slow error
		if len(pids) > 0 {
			slow = j.hasten(sharesMax, unbounded)
		}
		if err = j.kill(ctx); err != nil {
			err = errors.Join(err, slow)
		}
	}
	r := KillResult{Processes: len(pids), Took: time.Since(start)}
	if err != nil {
		return r, fmt.Errorf("kill: %w", err)
	}
	return r, nil
}

func (j *Job) kill(ctx context.Context) error {
	if d, ok := j.v2(); ok {
		if err := j.killTree(ctx, d); err != nil {
			return err
		}
	}
	return j.killEach(ctx)
}

// killRound is how long a kill is given before it is sent again: to a process that was attached
// meanwhile. The uninterruptible ones cost no more than a wake-up in each round.
const killRound = time.Second

// killTree ends what is in the v2 tree by cgroup.kill (Linux 5.14), which no fork escapes. Older
// kernels are left to the caller. A process that the v1 freezer holds gets the signal only when it
// is thawed, whoever froze it.
func (j *Job) killTree(ctx context.Context, d directory) error {
	for {
		err := d.Write("cgroup.kill", "1")
		if errors.Is(err, fs.ErrNotExist) {
			return nil // or there is no cgroup
		}
		if err == nil {
			err = j.thaw()
		}
		if err != nil {
			return err
		}
		round, cancel := context.WithTimeout(ctx, killRound)
		err = d.await(round, "populated", 0)
		expired := round.Err() != nil
		cancel()
		switch {
		case err == nil || gone(err):
			return nil
		case ctx.Err() != nil:
			return j.notEmpty(ctx, ctx.Err())
		case !expired:
			return err
		}
	}
}

// killEach ends processes one by one until the lists are empty. Frozen, a job cannot outrun that by
// forking; what v1 froze dies when it is thawed.
func (j *Job) killEach(ctx context.Context) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		pids, err := j.Processes()
		if errors.Is(err, ErrNotFound) || err == nil && len(pids) == 0 {
			return nil
		}
		if err == nil {
			err = j.killSome(ctx, pids)
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return j.notEmpty(ctx, err)
		}
	}
}

// killSome is one round of killEach.
func (j *Job) killSome(ctx context.Context, pids []int) error {
	round, cancel := context.WithTimeout(ctx, killRound)
	defer cancel()
	if len(pids) > 1 { // one process that forks is two in the next round
		freeze, cancel := context.WithTimeout(round, killRound/10)
		_ = j.setFrozen(freeze, true) // it is a help, not a condition
		cancel()
	}
	inside, err := j.Processes()
	if err != nil {
		return errors.Join(err, j.thaw())
	}
	var last holdings
	var errs []error
	for len(inside) > 0 {
		n := min(len(inside), maxHeld())
		last.close()
		last, err = j.hold(inside[:n])
		errs = append(errs, err, last.signal(unix.SIGKILL))
		inside = inside[n:]
	}
	defer last.close()
	errs = append(errs, j.thaw())
	if err := errors.Join(errs...); err != nil {
		return err
	}
	last.wait(round)
	return nil
}

// thaw thaws the job and what the job froze below itself, in both freezers: each may hold it
// whatever the other does.
func (j *Job) thaw() error {
	var errs []error
	if d, ok := j.freezesV2(); ok {
		errs = append(errs, d.walk(func(d directory) error { return d.Write(freezeFile, "0") }))
	}
	if d, ok := j.with("freezer"); ok && !d.h.v2 {
		errs = append(errs, d.walk(func(d directory) error { return d.Write(freezerFile, state(false)) }))
	}
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return err == nil || gone(err) })...)
}
