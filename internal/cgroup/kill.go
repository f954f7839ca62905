package cgroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/proc"
)

// KillResult reports what Kill killed outside the job.
type KillResult struct {
	Tracers []proc.Process // of the job's owner
}

// Notes returns a line about each killed tracer, for the log and the job's report.
func (r KillResult) Notes() []string {
	var notes []string
	for _, p := range r.Tracers {
		const text = "killed pid %d (%q) of uid %d, which traced a process of the job and held up its end"
		notes = append(notes, fmt.Sprintf(text, p.PID, p.Comm, p.UID))
	}
	return notes
}

// Kill ends every process of the job with SIGKILL and returns when none is left. That includes
// processes that are forked meanwhile, have left their session or are only in v1 hierarchies. It is
// not an error if the job has no processes or no cgroup. If ctx ends first, Kill fails with
// ErrNotEmpty and names the remaining processes. State D means that the kernel does not release a
// process. The result is valid even with an error.
//
// A tracer outside the job may prevent a process from ending. If the tracer belongs to the job's
// owner according to the job's mark, it is killed too. Others are left alone.
//
// Before the signal, the job gets the greatest cpu share, and its quota is lifted. Both are
// permanent, since after SIGKILL the job only dies.
func (j *Job) Kill(ctx context.Context) (KillResult, error) {
	slow := j.hasten(sharesMax, unbounded)
	var r KillResult
	if err := j.kill(ctx, &r); err != nil {
		return r, fmt.Errorf("kill: %w", errors.Join(err, slow))
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

// killTracers kills tracers that prevent the job's processes from ending, killRound after these got
// SIGKILL, or when the caller's time is over. A tracer such as strace(1) needs time for the end of
// many processes.
func (j *Job) killTracers(r *KillResult) error {
	pids, err := j.Processes()
	if err != nil || len(pids) == 0 {
		return nil
	}
	mark, err := j.JobMark()
	if err != nil || mark.Begin == nil || mark.Begin.Job == nil {
		return nil // the owner is unknown
	}
	killed, err := proc.KillTracers(j.tree.proc, pids, mark.Begin.Job.Owner.UID)
	for _, p := range killed {
		if !slices.ContainsFunc(r.Tracers, func(o proc.Process) bool { return o.ID() == p.ID() }) {
			r.Tracers = append(r.Tracers, p)
		}
	}
	return err
}

// killRound is the time after which the kill is repeated, because a process may have been attached
// meanwhile. So an uninterruptible process costs only one wake-up per round. firstRound is shorter:
// most processes have ended by then, and cgroup.kill cannot end all others.
const (
	firstRound = killRound / 20
	killRound  = time.Second
)

// killTree kills everything in the v2 tree with cgroup.kill (Linux 5.14), which processes cannot
// escape by forking. On older kernels it does nothing. A process frozen by v1 gets the signal only
// when it is thawed, no matter who froze it.
//
// cgroup.kill sends SIGKILL to the first thread of each process. If that has ended, the others do
// not get it (complete_signal of kernel/signal.c). So what is left after a round gets SIGKILL as a
// process.
func (j *Job) killTree(ctx context.Context, d directory, r *KillResult) error {
	for wait := firstRound; ; wait = killRound {
		err := d.Write("cgroup.kill", "1")
		if gone(err) {
			return nil // an older kernel, or no cgroup
		}
		if err == nil {
			err = j.thaw()
		}
		if err != nil {
			return err
		}
		round, cancel := context.WithTimeout(ctx, wait)
		err = d.await(round, "populated", 0)
		expired := round.Err() != nil
		cancel()
		if err == nil || gone(err) {
			return nil
		}
		left, listErr := j.Processes()
		eachErr := errors.Join(append(j.signalThese(left, unix.SIGKILL), j.freeFromOwnLimits(left), listErr)...)
		var tracerErr error
		if wait == killRound || ctx.Err() != nil {
			tracerErr = j.killTracers(r)
		}
		switch {
		case ctx.Err() != nil:
			return errors.Join(j.notEmpty(ctx, ctx.Err()), eachErr, tracerErr)
		case !expired:
			return err
		}
	}
}

// killEach kills processes one by one until the lists are empty. A job with several processes is
// frozen meanwhile, so that it cannot fork faster than it is killed. Processes frozen by v1 die
// when they are thawed.
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
	if len(pids) > 1 { // a single process that forks results in two in the next round
		freeze, cancel := context.WithTimeout(round, killRound/10)
		_ = j.setFrozen(freeze, true) // freezing only helps, so it may fail
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

// thaw thaws the job, and anything below it that the job itself froze, in both freezers. Each
// freezer works independently.
func (j *Job) thaw() error {
	var errs []error
	if d, ok := j.freezesV2(); ok {
		errs = append(errs, j.walk(d, func(d directory) error { return d.Write(freezeFile, "0") }))
	}
	if d, ok := j.with("freezer"); ok && !d.h.v2 {
		errs = append(errs, d.walk(func(d directory) error { return d.Write(freezerFile, state(false)) }))
	}
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return err == nil || gone(err) })...)
}
