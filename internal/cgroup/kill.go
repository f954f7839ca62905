package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/proc"
)

// KillResult tells what Kill found and how long it took.
type KillResult struct {
	Processes int            // alive when Kill began
	Took      time.Duration  // until the last one was gone
	Tracers   []proc.Process // of the job's owner, killed since they kept processes of the job from ending
}

// Notes returns a line on each tracer that was killed, for the log and the job's report.
func (r KillResult) Notes() []string {
	var notes []string
	for _, p := range r.Tracers {
		const text = "killed pid %d (%q) of uid %d, which traced a process of the job and held up its end"
		notes = append(notes, fmt.Sprintf(text, p.PID, p.Comm, p.UID))
	}
	return notes
}

// Kill ends every process of the job with SIGKILL and returns when none is left. Processes that
// fork meanwhile, that left their session or that are in v1 hierarchies only are included. A job
// without processes or without a cgroup is no mistake. When ctx ends first Kill fails with
// ErrNotEmpty and names what is left. State D is a process that the kernel does not let go of. The
// result holds in any case.
//
// A process that has not gone may be held by a tracer outside of the job. If that is a process of
// the job's owner, as the job's mark names him, it is killed too. Others stay.
//
// Before the signal the job gets the greatest share of cpu time that there is, and its quota is
// lifted. Both last: nothing of a job runs after SIGKILL but its end.
func (j *Job) Kill(ctx context.Context) (KillResult, error) {
	start := time.Now()
	pids, err := j.Processes()
	if errors.Is(err, ErrNotFound) {
		return KillResult{}, nil
	}
	r := KillResult{Processes: len(pids)}
	if err == nil {
		var slow error
		if len(pids) > 0 {
			slow = j.hasten(sharesMax, unbounded)
		}
		if err = j.kill(ctx, &r); err != nil {
			err = errors.Join(err, slow)
		}
	}
	r.Took = time.Since(start)
	if err != nil {
		return r, fmt.Errorf("kill: %w", err)
	}
	return r, nil
}

func (j *Job) kill(ctx context.Context, r *KillResult) error {
	if d, ok := j.v2(); ok {
		if err := j.killTree(ctx, d, r); err != nil {
			return err
		}
	}
	return j.killEach(ctx, r)
}

// killTracers kills what keeps processes of the job from ending, a round after they got SIGKILL.
func (j *Job) killTracers(r *KillResult) error {
	pids, err := j.Processes()
	if err != nil || len(pids) == 0 {
		return nil
	}
	mark, err := j.JobMark()
	if err != nil || mark.Begin == nil || mark.Begin.Job == nil {
		return nil // nobody knows whose job it is
	}
	killed, err := proc.KillTracers(j.tree.proc, pids, mark.Begin.Job.Owner.UID)
	for _, p := range killed {
		if !slices.ContainsFunc(r.Tracers, func(o proc.Process) bool { return o.ID() == p.ID() }) {
			r.Tracers = append(r.Tracers, p)
		}
	}
	return err
}

// killRound is how long a kill is given before it is sent again: to a process that was attached
// meanwhile. The uninterruptible ones cost no more than a wake-up in each round.
const killRound = time.Second

// killTree ends what is in the v2 tree by cgroup.kill (Linux 5.14), which no fork escapes. Older
// kernels are left to the caller. A process that the v1 freezer holds gets the signal only when it
// is thawed, whoever froze it.
func (j *Job) killTree(ctx context.Context, d directory, r *KillResult) error {
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
		if err == nil || gone(err) {
			return nil
		}
		tracerErr := j.killTracers(r)
		switch {
		case ctx.Err() != nil:
			return errors.Join(j.notEmpty(ctx, ctx.Err()), tracerErr)
		case !expired:
			return err
		}
	}
}

// killEach ends processes one by one until the lists are empty. Frozen, a job cannot outrun that by
// forking; what v1 froze dies when it is thawed.
func (j *Job) killEach(ctx context.Context, r *KillResult) error {
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
		tracerErr := j.killTracers(r)
		if err := sleep(ctx, pause); err != nil {
			return errors.Join(j.notEmpty(ctx, err), tracerErr)
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
