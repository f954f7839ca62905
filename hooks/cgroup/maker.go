package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

// A cgroup names its maker. A job that is being set up is in nobody's list of jobs yet, and lists are old when they are
// used; so what is in no list is an orphan only if its maker is gone as well. And a list is that of one state directory: a job that is
// recorded in another one is no orphan either, as long as that is there. Its host may be gone for a restart only. Where both have it, as
// after a state directory was copied, the one that lives answers for it.

// thisMaker returns this process and its parent.
func thisMaker(procfs *kernfs.FS) (cgroup.Maker, error) {
	self, err := proc.Self(procfs)
	if err != nil {
		return cgroup.Maker{}, err
	}
	p, err := proc.Read(procfs, self.PID)
	if err != nil {
		return cgroup.Maker{}, err
	}
	host, err := proc.ID(procfs, p.PPID)
	if err != nil && !errors.Is(err, proc.ErrGone) { // a parent of another pid namespace is 0
		return cgroup.Maker{}, err
	}
	return cgroup.Maker{Hook: self, Host: host}, nil
}

// mark puts this process on the cgroup. The caller holds the tree's lock.
func (h *hook) mark(j *cgroup.Job) error {
	return j.SetMaker(h.self)
}

// own has this process answer for the job until disown.
func (h *hook) own(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owned[id] = true
}

func (h *hook) disown(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.owned, id)
	delete(h.books, id)
}

func (h *hook) owns(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owned[id]
}

// answered tells whether somebody answers for the job's cgroup. job is what this host has of it, nil where that is not to count: what
// is recorded elsewhere is answered from there, unless it is recorded here too.
func (h *hook) answered(j *cgroup.Job, job *hostapi.Job) bool {
	if h.owns(j.ID()) {
		return true
	}
	m, err := j.Maker()
	if err != nil {
		return false // older than this program, or made by hand
	}
	switch {
	case m.State.Apart(h.kept) && !recorded(j, job):
		return true
	case m.Hook == h.self.Hook: // ended here, as far as that went
		return false
	case proc.Alive(h.roots.Proc, m.Hook):
		return true
	case m.Host == h.self.Host: // by a hook before this one, whose jobs exechost_startup named
		return false
	}
	return proc.Alive(h.roots.Proc, m.Host)
}

// recorded tells whether the host has a record of this very run: its state of the job and the cgroup's own come from one begin. What an
// earlier run of the same id left behind is of another one, even where PBS's run_count is the same.
func recorded(j *cgroup.Job, job *hostapi.Job) bool {
	if job == nil || len(job.State) == 0 {
		return false
	}
	r, err := j.Record()
	if err != nil {
		return false
	}
	var here, there state
	if json.Unmarshal(job.State, &here) != nil || json.Unmarshal(r.State, &there) != nil {
		return false
	}
	return here.BegunMicros != 0 && here.BegunMicros == there.BegunMicros
}

// anothers tells whether the job of an event is another host's: one that lives, or whose records have the job as ours do not. A hook of
// the same host is this one's predecessor, even if it has not died yet.
func (h *hook) anothers(j *cgroup.Job, job *hostapi.Job) bool {
	if h.owns(j.ID()) {
		return false
	}
	m, err := j.Maker()
	return err == nil && m.Host != h.self.Host && h.answered(j, job)
}

// whose is the error of what is not done to a cgroup that is answered.
func (h *hook) whose(j *cgroup.Job) error {
	if dir := h.elsewhere(j); dir != "" {
		return fmt.Errorf("%w: its cgroup says that its record is in %s, and this one has its records in %s", errAnswered, dir, h.kept)
	}
	return errAnswered
}

// elsewhere returns the state directory that the cgroup names, where that is not this host's; "" otherwise.
func (h *hook) elsewhere(j *cgroup.Job) string {
	m, err := j.Maker()
	if err != nil || !m.State.Apart(h.kept) {
		return ""
	}
	return m.State.Dir
}

// adopt has this process answer for a job that lives and whose maker does not. job is what the host has of it. The caller has the job's
// turn.
func (h *hook) adopt(ctx context.Context, j *cgroup.Job, job *hostapi.Job) error {
	if h.answered(j, job) {
		return nil
	}
	unlock, err := h.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if h.answered(j, job) { // another hook was faster
		return nil
	}
	err = h.mark(j)
	if err == nil {
		h.own(j.ID())
	}
	if errors.Is(err, cgroup.ErrNotFound) {
		return nil
	}
	return err
}

// errAnswered says that a cgroup is somebody's.
var errAnswered = errors.New("another hookhost answers for it")

// removeLeft kills and removes a cgroup for which nobody answers; else it fails with errAnswered. The caller has the
// job's turn; the mark keeps hooks of other hosts away meanwhile, without holding the lock over a kill.
func (h *hook) removeLeft(ctx context.Context, j *cgroup.Job) error {
	unlock, err := h.lock(ctx)
	if err != nil {
		return err
	}
	if h.answered(j, nil) {
		unlock()
		return h.whose(j)
	}
	err = h.mark(j)
	if errors.Is(err, cgroup.ErrNotFound) {
		defer unlock() // the directory that takes the mark has gone first: only the lock is left
	} else {
		unlock()
		if err != nil {
			return err
		}
	}
	return h.remove(ctx, j)
}

// sweep removes the cgroups that are of no job: not in known, nobody answers for them, and their own record does not say
// that there is a job which runs. It returns their ids. All of it has kill_timeout: what does not die in time was sent
// its signal and goes another time.
func (h *hook) sweep(ctx context.Context, known map[string]*hostapi.Job) (swept []string, err error) {
	ids, err := h.tree.JobIDs()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, h.killTimeout())
	defer cancel()
	var errs []error
	for _, id := range ids {
		if _, listed := known[id]; listed {
			continue
		}
		removed, err := h.sweepJob(ctx, id)
		if err != nil {
			errs = append(errs, hostapi.Errorf(hostapi.KindNode, "cgroup of unknown job %s: %w", id, err))
		}
		if removed {
			swept = append(swept, id)
		}
	}
	return swept, errors.Join(errs...)
}

func (h *hook) sweepJob(ctx context.Context, id string) (removed bool, err error) {
	release, _ := h.turns.try(id)
	if release == nil {
		return false, nil // it begins or ends at this moment
	}
	defer release()
	j, err := h.tree.Job(id)
	if err != nil {
		return false, err
	}
	if h.answered(j, nil) || !j.Exists() {
		if dir := h.elsewhere(j); dir != "" && h.firstLeft(dir) {
			h.logOf(id).Warnf("left alone, as all jobs that are recorded in %s: here they are in %s, and two hookhosts want two prefixes in [cgroup]", dir, h.kept)
		}
		return false, nil
	}
	if r, err := j.Record(); err == nil && !r.Ending {
		// A job that somebody began and nobody ended: its record was lost, and the host makes it anew.
		h.logOf(id).Warn("left the cgroup of a job that has no record")
		return false, nil
	}
	strangers, err := h.strangers(j)
	switch {
	case err != nil:
		return false, err
	case strangers:
		if h.firstLeft(id) {
			h.logOf(id).Warn("left a cgroup that has processes and was not made by hookhost")
		}
		return false, nil
	}
	err = h.removeLeft(ctx, j)
	switch {
	case errors.Is(err, errAnswered):
		return false, nil
	case errors.Is(err, errHeld): // a user's doing, which makes no node bad
		if h.firstLeft(errHeld.Error() + id) {
			h.logOf(id).Warnf("its cgroup is removed later: %v", err)
		}
		return false, nil
	case err != nil:
		return false, fmt.Errorf("remove: %w", err)
	}
	h.logOf(id).Warn("removed the cgroup of an unknown job")
	return true, nil
}

// strangers tells whether a cgroup has processes and neither maker nor record. Whatever hookhost makes has its maker's mark before
// the first process is in it; OpenPBS's own hook has its jobs at the same place on cgroup v1, and they go on where it is
// replaced under them. The end of such a job, by pbs_mom's word, does remove it.
func (h *hook) strangers(j *cgroup.Job) (bool, error) {
	none := func(err error) bool { // that hook may have made none of the directory that has ours
		return errors.Is(err, unix.ENODATA) || errors.Is(err, cgroup.ErrNotFound)
	}
	_, maker := j.Maker()
	_, record := j.Record()
	if !none(maker) || !none(record) {
		return false, nil
	}
	pids, err := j.Processes()
	return len(pids) > 0, err
}

// firstLeft is true once for each id, and each path.
func (h *hook) firstLeft(what string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.left[what] {
		return false
	}
	h.left[what] = true
	return true
}
