package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/pbs"
)

// excess is a bound that a sample exceeds, in bytes.
type excess struct {
	what        string
	used, bound int64
}

// text returns the message that MoM itself writes (openpbs src/resmom/mom_main.c, mom_over_limit).
func (e excess) text() string {
	return fmt.Sprintf("=>> PBS: job killed: %s %s exceeded limit %s", e.what, pbs.Size(e.used).KB(),
		pbs.Size(e.bound).KB())
}

// reasonMark is an extended attribute of the job's cgroup. It says why the job is being killed. A
// later process of this hook can still report that, at a periodic and at the job's epilogue.
const reasonMark = "trusted.hookhost.excess"

// longestGrace, in seconds, keeps a duration from overflowing. No job runs that long.
const longestGrace = 1 << 31

// kill ends the job's processes as MoM does when walltime runs out. It sends SIGTERM, and later
// SIGKILL. The delay is the job's kill_delay, or the node's kill_grace if the job has none.
func (f *follower) kill(ctx context.Context, text string) {
	log := f.h.logOf(f.j.ID())
	if pids, err := f.j.Processes(); err == nil && len(pids) == 0 {
		return
	}
	if _, err := f.j.Mark(reasonMark); err != nil { // the first excess is the reason
		if err := f.j.SetMark(reasonMark, []byte(text)); err != nil {
			log.Error(err)
		}
		log.Info(text)
	}
	if grace := f.grace(); grace > 0 {
		f.terminate(ctx, grace)
	}
	if ctx.Err() != nil { // the job's end kills it now
		return
	}
	ctx, cancel := context.WithTimeout(ctx, f.h.killTimeout())
	defer cancel()
	if _, err := f.h.killAll(ctx, f.j); err != nil && context.Cause(ctx) != context.Canceled {
		log.Error(err)
	}
}

// grace returns the delay between the two signals. A suspended job has none: it would have to be
// thawed for SIGTERM, and its cpus may have been given to others.
func (f *follower) grace() time.Duration {
	job := f.h.snapshot(f.j.ID())
	if job.phase == hostapi.PhaseSuspended {
		return 0
	}
	if job.killDelay != nil {
		return time.Duration(min(*job.killDelay, longestGrace)) * time.Second
	}
	return time.Duration(f.h.policy.Cgroup.KillGrace)
}

// terminate returns when the job has no processes left or its grace period is over. Without a
// memory controller nothing else limits the job's memory. There the grace period ends early if the
// job exceeds what a kernel with one would allow.
func (f *follower) terminate(ctx context.Context, grace time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		for {
			select {
			case e := <-f.excesses:
				if e.what == "mem" && e.used > f.h.policy.withCache(e.bound, f.h.policy.memTotal(f.h.node())) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	if _, err := f.h.terminate(ctx, f.j, grace); err != nil { // SIGKILL follows in any case
		f.h.logOf(f.j.ID()).Error(err)
	}
}

// killReason returns why the follower killed the job, or "" if it did not.
func (h *hook) killReason(j *cgroup.Job) string {
	b, err := j.Mark(reasonMark)
	if err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, cgroup.ErrNotFound) {
		h.logOf(j.ID()).Warn(err)
	}
	return string(b)
}
