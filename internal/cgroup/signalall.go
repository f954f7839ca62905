package cgroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// freezeForSignal is how long SignalAll waits for a job to freeze. If the job does not freeze
// because a process is in the kernel, it is signalled anyway.
const freezeForSignal = 20 * time.Millisecond

// signalRounds limits SignalAll if the job could not be frozen.
const signalRounds = 8

// SignalAll sends sigs, one after the other, to every process of the job, including those that are
// forked meanwhile. If a job has more than one process, it is frozen for that moment, so that no
// child is missed. Processes that a program forks in response to the signal, for example to save
// its work, do not get the signal either. SignalAll also reaches processes that are stopped or have
// left their session. It never signals the calling process.
//
// The job may not freeze in time, or the kernel may have no freezer. In that case the job is listed
// until there is no new process, at most eight times. SignalAll thaws a frozen job, so callers must
// not use it on a suspended one. A missing cgroup is not an error. SignalAll continues after an
// error and returns all of them.
//
// Many jobs may be signalled at the same time. So SignalAll reads only the v2 tree and the job's
// home, which every process enters. Only Kill finds processes that somebody has moved into another
// v1 hierarchy by hand.
//
// pids are the job's processes if the caller has just listed them (Entered), else nil. That saves a
// second list for a job with one process.
func (j *Job) SignalAll(ctx context.Context, pids []int, sigs ...syscall.Signal) (err error) {
	if pids == nil {
		pids, err = j.Entered()
	}
	if err == nil && len(pids) == 1 { // a process forked right now still gets SIGKILL later
		return j.signalError(j.signalThese(pids, sigs...))
	}
	round, cancel := context.WithTimeout(ctx, freezeForSignal)
	rounds := signalRounds
	if j.setFrozen(round, true) == nil { // a frozen process cannot fork
		rounds = 1
	}
	cancel()
	err = j.signalEach(rounds, sigs)
	if undo := j.writeFrozen(false); undo != nil && !gone(undo) && !errors.Is(undo, ErrUnsupported) {
		err = errors.Join(err, undo)
	}
	return err
}

// SignalEach is like SignalAll but does not freeze the job. It may miss processes that are forked
// meanwhile, so use Kill for SIGKILL.
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

// Entered returns the processes that are in the v2 tree or in the job's home. Attach enters these
// first, so every process that entered the job is there. A job of pbs_cgroups may have neither
// directory, and is read everywhere. A job without a cgroup has none.
func (j *Job) Entered() ([]int, error) {
	var dirs []directory
	if d, ok := j.v2(); ok {
		dirs = append(dirs, d)
	}
	if d := j.home(); !d.h.v2 {
		dirs = append(dirs, d)
	}
	list, found, err := j.list(dirs)
	if !found {
		list, _, err = j.list(j.dirs)
	}
	return list, err
}

// SignalSome sends sig to those of the job's processes that want selects, and returns how many
// there were. want is called twice per process, the second time while the process is held and its
// pid cannot be reused. SignalSome never signals the calling process. It continues after an error
// and returns all of them.
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
