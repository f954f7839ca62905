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

// ExechostStartup makes the host call for every live job, including jobs that began before this
// hook was installed. It does not act on any of them. For a job over its limit, the host calls
// immediately, in the job's turn.
func (h *hook) ExechostStartup(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	out := &hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{}}
	for id, job := range req.JobList {
		s, told := h.stateOf(job)
		if s.Limits.Asked == nil && s.Next == 0 {
			continue
		}
		u := &hostapi.JobUpdate{CallAtElapsed: s.Next, WalltimeLimit: s.walltimeLimit(), JobStderr: told}
		if kept, _ := decodeState(job.State); kept == nil { // otherwise a concurrent event may have newer information
			u.State = s.encode()
		}
		out.Jobs[id] = u
	}
	return out, nil
}

// ExechostPeriodic takes the actions that are due for the jobs that it was called for, in parallel.
// When it is called for the host, it only makes sure that the host calls for each job. It also
// reports jobs that cannot be killed, as long as there are any, because such a node must not get
// another job.
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
	looks := make(chan look, len(req.JobList)) // room for all, since nobody receives late ones
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

// goAhead gives the calling goroutine priority over the processes that its signals wake up. The
// death of a thousand processes is more work than sending the signals. The goroutine's thread ends
// with it, and so does the priority (setpriority(2) applies to one thread). If raising the priority
// is not allowed, nothing changes.
func goAhead() {
	runtime.LockOSThread()
	unix.Setpriority(unix.PRIO_PROCESS, 0, -20)
}

const (
	// workers limits how many jobs are handled at a time. For each of them, cgroup.Job may use a
	// sixteenth of this program's file descriptors.
	workers = 8
	// patience is how long to wait for all jobs together. A job whose files hang in the kernel must
	// not delay the answers for the others.
	patience = 10 * time.Second
	lookHung = 30 * time.Second
)

func callLater(job *hostapi.Job) *hostapi.JobUpdate {
	return &hostapi.JobUpdate{CallAtElapsed: job.Elapsed + lookHung}
}

// remind handles the host's periodic. It runs concurrently with the events of jobs, so it changes
// nothing about them. If its information is outdated, the host only makes an unnecessary call.
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

// stateOf returns a job's state with its current limits. A job without a state began without this
// hook. If the request of such a job is invalid, the job simply has no limits. told are lines for
// its standard error.
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
	if s.Limits.Asked == nil { // it had no limits, so the node's maximum applies
		bare := *job
		bare.ResourceList = nil
		if _, err := s.follow(h.policy, &bare, h.cpusFor(&bare, j)); err != nil {
			log.Warn(err)
		}
	}
	return s, nil
}

// found returns the state of a job that has none. The mark on the job's cgroup says which process
// started it. found returns nil without a cgroup: such a job may be just beginning, and has no
// processes that could be ended.
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

// stillThere returns an error that names the remaining processes of an unkillable job, or nil.
// Processes that only wait for a cpu do not count, because they will get one eventually.
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
