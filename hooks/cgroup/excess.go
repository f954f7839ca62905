package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/pbs"
)

// exceededText is MoM's own (openpbs src/resmom/mom_main.c, mom_over_limit).
func exceededText(what string, used, limit int64) string {
	return fmt.Sprintf("=>> PBS: job killed: %s %s exceeded limit %s", what, pbs.Size(used).KB(), pbs.Size(limit).KB())
}

// kernelText follows it where the job would be within its mem but for kernel memory, which its
// owner sees nowhere else.
func kernelText(kernel int64) string {
	return fmt.Sprintf(", %s of it in the kernel: buffers of sockets and pipes, page tables", pbs.Size(kernel).KB())
}

// excessMark is the extended attribute of the job's cgroup that says what the job is killed for.
// The job's epilogue can read it in whatever process.
const excessMark = "trusted.hookhost.excess"

// heldMark is one with what the job held then, in bytes. The watcher's own samples may all have
// come before that, and a job that is killed for 100 MB must not be reported with 80.
const heldMark = "trusted.hookhost.excess_held"

// stillGrowing is the part of mem by which a job may go on growing in its grace.
const stillGrowing = 16

// longestGrace, in seconds, keeps a duration from turning over; no job lives as long.
const longestGrace = 1 << 31

// kill ends the job's processes as MoM does with one that is over its walltime: SIGTERM, and
// SIGKILL after the job's kill_delay, else after the node's kill_grace. A job that goes on growing
// has no grace: no other limit holds it.
func (s *sampler) kill(ctx context.Context, text string) {
	log := s.h.logOf(s.j.ID())
	if pids, err := s.j.Processes(); err == nil && len(pids) == 0 {
		return
	}
	if _, err := s.j.Mark(excessMark); err != nil { // the first is what it is killed for
		err := errors.Join(
			s.j.SetMark(heldMark, strconv.AppendInt(nil, s.held, 10)),
			s.j.SetMark(excessMark, []byte(text)),
		)
		if err != nil {
			log.Error(err)
		}
		s.h.tell(s.j.ID(), &hostapi.JobUpdate{Diag: excessDiag(text), JobStderr: []string{text}, Notes: []string{text}})
	}
	if grace := s.grace(); grace > 0 {
		if err := errors.Join(s.j.Hasten(), s.j.Signal(unix.SIGTERM), s.j.Signal(unix.SIGCONT)); err != nil {
			log.Error(err)
		}
		s.wait(ctx, grace)
	}
	if ctx.Err() != nil { // its end is at it
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

// wait returns when the job has no processes, its grace is over, or it goes on growing.
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

// excessDiag is what diag_messages has of it.
func excessDiag(text string) string { return strings.TrimPrefix(text, "=>> PBS: ") }

// reportExcess adds to a job's last outcome what it was killed for.
func (h *hook) reportExcess(out *hostapi.Outcome, j *cgroup.Job) {
	b, err := j.Mark(excessMark)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, cgroup.ErrNotFound) {
		return
	}
	if err != nil {
		h.logOf(j.ID()).Warn(err)
		return
	}
	text := string(b)
	out.JobStderr, out.Notes = append(out.JobStderr, text), append(out.Notes, text)
	if out.Diag != "" {
		out.Diag += ", "
	}
	out.Diag += excessDiag(text)
}
