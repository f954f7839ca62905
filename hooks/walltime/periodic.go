package main

import (
	"context"
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/proc"
)

// ExechostStartup has the host call for every job that lives here, those included that began before
// this hook was there. ExechostStartup acts on none. A job over its limit is due at once, in the
// job's turn.
func (h *hook) ExechostStartup(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	out := &hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{}}
	for id, job := range req.JobList {
		s, told := h.stateOf(job)
		if s.Limits.Asked == nil && s.Next == 0 {
			continue
		}
		u := &hostapi.JobUpdate{CallAtElapsed: s.Next, WalltimeLimit: s.walltimeLimit(), JobStderr: told}
		if kept, _ := decodeState(job.State); kept == nil { // else an event beside this one may know better
			u.State = s.encode()
		}
		out.Jobs[id] = u
	}
	return out, nil
}

// ExechostPeriodic does what is due of the jobs that it was called for, all at a time. Called for
// the host, it only makes sure that the host calls, and reports what cannot be killed, for as long
// as that is so. Such a node is not to get the next job.
func (h *hook) ExechostPeriodic(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if !req.Partial {
		return h.remind(req)
	}
	jobs := make(chan *hostapi.Job, len(req.JobList))
	for _, job := range req.JobList {
		jobs <- job
	}
	close(jobs)
	type look struct {
		id     string
		update *hostapi.JobUpdate
		said   string
	}
	looks := make(chan look, len(req.JobList)) // room for all: nobody hears those that come too late
	for range min(workers, len(req.JobList)) {
		go func() {
			if len(req.JobList) > workers {
				goAhead()
			}
			for job := range jobs {
				if ctx.Err() != nil {
					return
				}
				update, said := h.see(ctx, job)
				looks <- look{job.ID, update, said}
			}
		}()
	}
	out := &hostapi.Outcome{Jobs: make(map[string]*hostapi.JobUpdate, len(req.JobList))}
	said := map[string]string{}
	late := time.NewTimer(patience)
	defer late.Stop()
	for len(out.Jobs) < len(req.JobList) {
		select {
		case l := <-looks:
			out.Jobs[l.id] = l.update
			if l.said != "" {
				said[l.id] = l.said
			}
		case <-late.C:
			for id, job := range req.JobList {
				if out.Jobs[id] == nil {
					h.logOf(id).Errorf("the kernel has not answered within %v: its time is looked at again later",
						patience)
					out.Jobs[id] = callLater(job)
				}
			}
		}
	}
	for id, text := range said {
		h.logOf(id).Info(text)
	}
	return out, nil
}

// goAhead has the goroutine that calls it go before the processes that its signals wake up. The end
// of a thousand processes is more work than to send them their signals. Its thread ends with it,
// and so does the priority (setpriority(2): of one thread). Nothing changes where that is not
// allowed.
func goAhead() {
	runtime.LockOSThread()
	unix.Setpriority(unix.PRIO_PROCESS, 0, -20)
}

const (
	// workers bounds how many jobs are seen to at a time. Each holds as many descriptors as
	// cgroup.Job may for one job, a sixteenth of what this program may have.
	workers = 8
	// patience is how long all jobs together are waited for: one whose files hang in the kernel is
	// not to cost the others their answers.
	patience = 10 * time.Second
	lookHung = 30 * time.Second
)

func callLater(job *hostapi.Job) *hostapi.JobUpdate {
	return &hostapi.JobUpdate{CallAtElapsed: job.Elapsed + lookHung}
}

// remind is the periodic of the host. The periodic comes beside the events of jobs, so it changes
// nothing of them. Its facts about them may be old: then the host calls once too often.
func (h *hook) remind(req *hostapi.Request) (*hostapi.Outcome, error) {
	out := &hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{}}
	var errs []error
	for id, job := range req.JobList {
		s, _ := h.stateOf(job)
		if s.Next > 0 {
			out.Jobs[id] = &hostapi.JobUpdate{CallAtElapsed: s.Next, WalltimeLimit: s.walltimeLimit()}
		}
		if s.Stage == unkillable {
			errs = append(errs, h.stillThere(id))
		}
	}
	return out, errors.Join(errs...)
}

// stateOf returns where a job is and what its limits are by now. A job without a state began
// without this hook. A request of such a job that cannot be met costs it nothing but its limits.
// told are lines for its standard error.
func (h *hook) stateOf(job *hostapi.Job) (s *state, told []string) {
	log := h.logOf(job.ID)
	s, err := decodeState(job.State)
	if err != nil {
		log.Warn(err)
	}
	if s != nil && !s.Limits.outdated(job.ResourceList) {
		return s, nil
	}
	j, _ := h.tree.Job(job.ID)
	if s == nil {
		if s = h.found(j); s == nil {
			return &state{}, nil
		}
	}
	told, err = s.follow(h.policy, job, h.cpusFor(job, j))
	if err == nil {
		return s, told
	}
	log.Warnf("the limits of time that it had stay: %v", err)
	if s.Limits.Asked == nil { // it had none: the node's maximum holds
		bare := *job
		bare.ResourceList = nil
		if _, err := s.follow(h.policy, &bare, h.cpusFor(&bare, j)); err != nil {
			log.Warn(err)
		}
	}
	return s, nil
}

// found is what is known of a job that has no state: its cgroup has who answers for it. Nil for one
// that has no cgroup: it may be in the middle of its begin, and has nothing that could be ended.
func (h *hook) found(j *cgroup.Job) *state {
	if j == nil {
		return nil
	}
	r, err := j.JobMark()
	if err != nil {
		return nil
	}
	return stateFor(r.Begin)
}

// stillThere is an error that names what is left of an unkillable job; nil when nothing is. The
// result is also nil for processes that wait for a cpu, which they get some time.
func (h *hook) stillThere(id string) error {
	j, err := h.tree.Job(id)
	if err != nil {
		return hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	pids, err := j.Processes()
	if errors.Is(err, cgroup.ErrNotFound) || len(pids) == 0 || proc.Runnable(h.roots.Proc, pids) {
		return nil
	}
	return hostapi.Errorf(hostapi.KindNode, "job %s: %s", id, h.unkillableText(pids))
}
