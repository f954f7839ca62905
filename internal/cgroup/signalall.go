package cgroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// freezeForSignal is how long SignalAll waits for a job to stand still. A job that does not,
// because the kernel holds a process of it, gets its signals all the same.
const freezeForSignal = 20 * time.Millisecond

// signalRounds bounds SignalAll where the job could not be frozen.
const signalRounds = 8

// SignalAll sends sigs, one after the other, to every process of the job, to those as well that are
// forked meanwhile. A job of more than one process is frozen for that moment. So no child is
// missed. No process is hit either that a program forks because it got the signal, such as one that
// saves its work. Processes that left their session or are stopped are reached too. The calling
// process is spared.
//
// A job may not freeze in time, or the kernel may have no freezer. Then the job is listed until
// nobody new turns up, eight times at most. A frozen job is thawed by SignalAll; callers have to
// spare a suspended one. A job without a cgroup is no mistake. SignalAll goes on after an error and
// returns all of them.
//
// Many jobs may be signalled at a time. So SignalAll reads the v2 tree and the job's home alone,
// which every process enters. A process that somebody has put into another v1 hierarchy by hand is
// for Kill.
//
// pids are the job's processes where the caller has just asked for them (Entered), else nil. A job
// of one process is spared a second list then.
func (j *Job) SignalAll(ctx context.Context, pids []int, sigs ...syscall.Signal) (err error) {
	if pids == nil {
		pids, err = j.Entered()
	}
	if err == nil && len(pids) == 1 { // a fork in this very moment has its SIGKILL to come
		return j.signalError(j.signalThese(pids, sigs...))
	}
	round, cancel := context.WithTimeout(ctx, freezeForSignal)
	rounds := signalRounds
	if j.setFrozen(round, true) == nil { // what does not run does not fork
		rounds = 1
	}
	cancel()
	err = j.signalEach(rounds, sigs)
	if undo := j.writeFrozen(false); undo != nil && !gone(undo) && !errors.Is(undo, ErrUnsupported) {
		err = errors.Join(err, undo)
	}
	return err
}

// SignalEach is SignalAll without the freezing: a process that is forked while it works may be
// missed.
func (j *Job) SignalEach(sigs ...syscall.Signal) error { return j.signalEach(1, sigs) }

func (j *Job) signalEach(rounds int, sigs []syscall.Signal) error {
	var errs []error
	done := map[int]bool{}
	for range rounds {
		pids, err := j.Entered()
		errs = append(errs, err)
		pids = slices.DeleteFunc(pids, func(pid int) bool { return done[pid] })
		if len(pids) == 0 {
			break
		}
		errs = append(errs, j.signalThese(pids, sigs...)...)
		for _, pid := range pids {
			done[pid] = true
		}
	}
	return j.signalError(errs)
}

func (j *Job) signalThese(pids []int, sigs ...syscall.Signal) (errs []error) {
	for some := range slices.Chunk(pids, maxHeld()) {
		processes, err := j.hold(some)
		errs = append(errs, err)
		for _, sig := range sigs {
			errs = append(errs, processes.signal(sig))
		}
		processes.close()
	}
	return errs
}

func (j *Job) signalError(errs []error) error {
	if err := errors.Join(slices.DeleteFunc(errs, gone)...); err != nil {
		return fmt.Errorf("signal job %s: %w", j.id, err)
	}
	return nil
}

// Entered returns the processes that are in the v2 tree or in the job's home. Attach
// enters these first, so all processes that have entered at all are there. A job without a cgroup
// has none.
func (j *Job) Entered() ([]int, error) {
	var dirs []directory
	if d, ok := j.v2(); ok {
		dirs = append(dirs, d)
	}
	if d := j.home(); !d.h.v2 {
		dirs = append(dirs, d)
	}
	list, _, err := j.list(dirs)
	return list, err
}

// SignalSome sends sig to those of the job's processes that want picks, and returns to how many.
// want is asked about a process twice, the second time when its pid is held and can be no other's.
// The calling process is spared. SignalSome goes on after an error and returns all of them.
func (j *Job) SignalSome(sig syscall.Signal, want func(pid int) bool) (sent int, err error) {
	not := func(pid int) bool { return !want(pid) }
	pids, err := j.Processes()
	errs := []error{err}
	for some := range slices.Chunk(slices.DeleteFunc(pids, not), maxHeld()) {
		processes, err := j.hold(some)
		errs = append(errs, err)
		for _, h := range processes {
			if want(h.pid) {
				errs = append(errs, holdings{h}.signal(sig))
				sent++
			}
		}
		processes.close()
	}
	return sent, errors.Join(errs...)
}
