package main

import (
	"context"
	"errors"
	"time"

	"github.com/hookhost/hookhost/internal/cgroup"
)

// resizeMark is the extended attribute of a job's cgroup that says that the limits in force are to come down to those of
// the record: a resize is on its way, or was broken off, or [memory] enforce has changed. It is empty at any other time, and
// then limits that somebody else has set are left alone.
const resizeMark = "trusted.hookhost.resizing"

// What stands there: told says that a warning was given.
const (
	resizing = "begun"
	told     = "told"
)

// bringDownTime is what bringing one job down takes at most: see cgroup.Job.Apply.
const bringDownTime = 10 * time.Second

// marked returns what stands there; "" where there is nothing, or no such job.
func marked(j *cgroup.Job) string {
	mark, _ := j.Mark(resizeMark)
	return string(mark)
}

// followEnforce sees at startup whether a job was begun, or last resized, under another [memory] enforce. Where mem is no
// limit of the kernel's any more, the kernel's is raised to what all jobs may have, which is no promise to this one. Where it
// has become one the job is marked: to give memory back takes seconds. The caller has the job's turn, and s is the state that the
// cgroup has.
func (h *hook) followEnforce(j *cgroup.Job, s *state) error {
	r, err := j.Record()
	if err != nil || r.Ending || r.Limits == nil || !h.policy.Memory.Enabled {
		return nil
	}
	mem := h.policy.memLimit(*r.Limits)
	if (mem == nil) == (s.MemLimit == nil) {
		return nil
	}
	if mem == nil {
		if marked(j) != "" {
			return nil
		}
		return j.SetMark(resizeMark, []byte(resizing))
	}
	a, err := h.policy.askedIn(r)
	if err != nil {
		return err
	}
	l, err := j.Limits()
	if err != nil {
		return err
	}
	more, _ := h.inKernel(*r.Limits, a).Cover(l)
	l.Mem, l.MemSwap, l.MemHigh = more.Mem, more.MemSwap, more.MemHigh
	if err := j.Apply(l); err != nil {
		return err
	}
	s.MemLimit = mem
	return h.amend(j, func(r *cgroup.Record) { r.State = s.encode() })
}

// bringDown ends what a mark stands for: the job gets the limits of its record where those are no more than what is in
// force, and where they are more the record gets what is in force, since others may have been given the rest. Nothing is
// raised and no cpu added. A job that does not give back enough keeps what it has, and is tried again the next time. It does
// nothing when ctx may end before it is done. The caller has the job's turn.
func (h *hook) bringDown(ctx context.Context, j *cgroup.Job, s *state) error {
	mark := marked(j)
	if mark == "" {
		return nil
	}
	if end, ok := ctx.Deadline(); ctx.Err() != nil || ok && time.Until(end) < bringDownTime {
		return nil
	}
	r, err := j.Record()
	if err != nil || r.Ending {
		return nil
	}
	if r.Limits == nil { // nobody knows any more what it was to have
		return j.SetMark(resizeMark, nil)
	}
	a, err := h.policy.askedIn(r)
	if err != nil {
		return err
	}
	now, err := j.Limits()
	if err != nil {
		return err
	}
	to := h.inKernel(*r.Limits, a).Within(now)
	if err := j.Apply(now.With(to)); err != nil {
		if errors.Is(err, cgroup.ErrNotFound) || mark == told {
			return nil
		}
		h.logOf(j.ID()).Warnf("its limits are not what its record says, and stay as they are until it gives back enough: %v", err)
		return j.SetMark(resizeMark, []byte(told))
	}
	l := promised(r.Limits.With(to))
	if !h.policy.kernelLimitsMem() {
		l.Mem, l.MemHigh = r.Limits.Mem, r.Limits.MemHigh
		if a.Vmem == nil {
			l.MemSwap = r.Limits.MemSwap
		}
	}
	s.follow(j)
	if s.MemLimit = h.policy.memLimit(l); !l.CPUs.IsEmpty() {
		s.CPUs, s.Mems = l.CPUs.String(), l.Mems.String()
	}
	if err := h.amend(j, func(r *cgroup.Record) { r.Limits, r.State = &l, s.encode() }); err != nil {
		return err
	}
	h.resized(j.ID())
	h.logOf(j.ID()).Info("its limits are those of its record again, after a resize that was broken off or a change of [memory] enforce")
	return j.SetMark(resizeMark, nil)
}
