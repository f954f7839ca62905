package main

import (
	"context"
	"errors"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
)

// ExechostStartup has the host call for every job that lives here, those included that began before this hook was there. It acts on
// none: what is over its limit is due at once, in the job's turn.
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

// ExechostPeriodic does what is due of the jobs that it was called for, all at a time. Called for the host it only makes sure that the host
// calls, and reports what cannot be killed, for as long as it cannot: such a node is not to get the next job.
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
	}
	looks := make(chan look, len(req.JobList)) // room for all: nobody hears those that come too late
	for range min(workers, len(req.JobList)) {
		go func() {
			for job := range jobs {
				if ctx.Err() != nil {
					return
				}
				looks <- look{job.ID, h.see(ctx, job)}
			}
		}()
	}
	out := &hostapi.Outcome{Jobs: make(map[string]*hostapi.JobUpdate, len(req.JobList))}
	late := time.NewTimer(patience)
	defer late.Stop()
	for len(out.Jobs) < len(req.JobList) {
		select {
		case l := <-looks:
			out.Jobs[l.id] = l.update
		case <-late.C:
			for id, job := range req.JobList {
				if out.Jobs[id] == nil {
					h.logOf(id).Errorf("the kernel has not answered within %v: its time is looked at again later", patience)
					out.Jobs[id] = lookLater(job)
				}
			}
		}
	}
	return out, nil
}

const (
	// workers bounds how many jobs are seen to at a time. Each holds as many descriptors as cgroup.Job may for one job, a sixteenth
	// of what this program may have.
	workers = 8
	// patience is how long all jobs together are waited for: one whose files hang in the kernel is not to cost the others their
	// answers.
	patience = 10 * time.Second
	lookHung = 30 * time.Second
)

func lookLater(job *hostapi.Job) *hostapi.JobUpdate {
	return &hostapi.JobUpdate{CallAtElapsed: job.Elapsed + lookHung}
}

// remind is the periodic of the host. It comes beside the events of jobs, so it changes nothing of them, and what it knows of them
// may be old: then the host calls once too often.
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

// stateOf returns where a job is and what its limits are by now. One of which nothing is known began without this hook; what such
// a job asks for in vain costs it nothing but its limits. told are lines for its standard error.
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
		if _, err := s.follow(h.policy, &bare, h.cpusFor(job, j)); err != nil {
			log.Warn(err)
		}
	}
	return s, nil
}

// found is what is known of a job that has no state: its cgroup has who answers for it. Nil for one that has no cgroup: it may be in the middle
// of its begin, and has nothing that could be ended.
func (h *hook) found(j *cgroup.Job) *state {
	if j == nil {
		return nil
	}
	r, err := j.Record()
	if err != nil {
		return nil
	}
	return &state{MoM: r.Begin.MoM}
}

// stillThere is an error that names what is left of an unkillable job; nil when nothing is.
func (h *hook) stillThere(id string) error {
	j, err := h.tree.Job(id)
	if err != nil {
		return hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	pids, err := j.Processes()
	if errors.Is(err, cgroup.ErrNotFound) || len(pids) == 0 {
		return nil
	}
	return hostapi.Errorf(hostapi.KindNode, "job %s: %s", id, h.unkillableText(pids))
}
