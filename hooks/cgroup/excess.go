package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/pbs"
)

// exceededText is the text that MoM itself uses (openpbs src/resmom/mom_main.c, mom_over_limit).
func exceededText(what string, used, limit int64) string {
	return fmt.Sprintf("=>> PBS: job killed: %s %s exceeded limit %s", what, pbs.Size(used).KB(), pbs.Size(limit).KB())
}

// kernelText is added if the job would be within its mem without kernel memory. The owner has no
// other way to see that.
func kernelText(kernel int64) string {
	return fmt.Sprintf(", %s of it in the kernel: buffers of sockets and pipes, page tables", pbs.Size(kernel).KB())
}

// excessMark is the extended attribute of the job's cgroup that says why the job is being killed.
// Another process of this hook can read it, at a periodic and at the job's epilogue.
const excessMark = "trusted.hookhost.excess"

// heldMark is the extended attribute with what the job held at that moment, in bytes. The watcher's
// samples may all be older, and a job that is killed for using 100 MB must not be reported with 80.
const heldMark = "trusted.hookhost.excess_held"

// stillGrowing is the divisor of mem that gives the growth allowed during a job's grace (1/16).
const stillGrowing = 16

// longestGrace, in seconds, keeps a duration from overflowing. No job lives that long.
const longestGrace = 1 << 31

// kill ends the job's processes as MoM does when walltime runs out. It sends SIGTERM, and SIGKILL
// after the job's kill_delay, or after the node's kill_grace without one. A job that keeps growing
// gets no grace, because no other limit stops it.
func (s *sampler) kill(ctx context.Context, text string) {
	log := s.h.logOf(s.j.ID())
	if pids, err := s.j.Processes(); err == nil && len(pids) == 0 {
		return
	}
	if _, err := s.j.Mark(excessMark); err != nil { // the first excess is the reason
		err := errors.Join(
			s.j.SetMark(heldMark, strconv.AppendInt(nil, s.held, 10)),
			s.j.SetMark(excessMark, []byte(text)),
		)
		if err != nil {
			log.Error(err)
		}
		log.Info(text)
	}
	if grace := s.grace(); grace > 0 {
		if err := errors.Join(s.j.Hasten(), s.j.Signal(unix.SIGTERM), s.j.Signal(unix.SIGCONT)); err != nil {
			log.Error(err)
		}
		s.wait(ctx, grace)
	}
	if ctx.Err() != nil { // the job's end kills it now
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.h.killTimeout())
	defer cancel()
	if _, err := s.h.killAll(ctx, s.j); err != nil && context.Cause(ctx) != context.Canceled {
		log.Error(err)
	}
}

func (s *sampler) grace() time.Duration {
	if delay := s.j.KillDelay(s.h.killDelayOf(s.j.ID())); delay != nil {
		return time.Duration(min(*delay, longestGrace)) * time.Second
	}
	return time.Duration(s.h.policy.Cgroup.KillGrace)
}

// wait returns when the job has no processes left, its grace is over, or it keeps growing.
func (s *sampler) wait(ctx context.Context, grace time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	begin, _, _ := s.read()
	for ctx.Err() == nil {
		round, cancel := context.WithTimeout(ctx, nearPause/2)
		err := s.j.Wait(round)
		cancel()
		if !errors.Is(err, cgroup.ErrNotEmpty) {
			return
		}
		v, _, err := s.read()
		if err != nil {
			return
		}
		if mem := s.bounds.mem; mem > 0 && v.mem > max(begin.mem, mem)+mem/stillGrowing {
			return
		}
	}
}

// excessDiag is the text for diag_messages.
func excessDiag(text string) string { return strings.TrimPrefix(text, "=>> PBS: ") }

// excess returns why the sampler killed the job, or "".
func (h *hook) excess(j *cgroup.Job) string {
	b, err := j.Mark(excessMark)
	if err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, cgroup.ErrNotFound) {
		h.logOf(j.ID()).Warn(err)
	}
	return string(b)
}
