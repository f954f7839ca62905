package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/rank"
)

// ranks finds the MPI ranks of jobs and remembers those that have ended.
type ranks struct {
	procfs   *kernfs.FS
	members  func(job string) ([]int, error)
	environs *proc.Environs

	mu   sync.Mutex
	jobs map[string]*rankedJob
}

// rankedJob is what is known about a job's ranks.
type rankedJob struct {
	finder *rank.Finder
	found  map[rank.Key]*rank.Found
}

func newRanks(procfs *kernfs.FS, members func(string) ([]int, error), environs *proc.Environs) *ranks {
	return &ranks{procfs: procfs, members: members, environs: environs, jobs: map[string]*rankedJob{}}
}

// forgetOthers drops the jobs that are not in the list.
func (r *ranks) forgetOthers(list map[string]*hostapi.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.jobs, func(id string, _ *rankedJob) bool { return list[id] == nil })
}

// find returns the ranks of a job that have been seen so far, by world and rank. Processes that are
// left when ctx ends are checked next time. The returned ranks are valid even with an error. owner
// is the job's.
func (r *ranks) find(ctx context.Context, id string, owner int) ([]hostapi.RankUsage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.jobs[id]
	if j == nil {
		environ := func(pid int) ([]byte, error) { return r.environs.Read(owner, pid) }
		j = &rankedJob{finder: &rank.Finder{Procfs: r.procfs, Environ: environ, Inner: true},
			found: map[rank.Key]*rank.Found{}}
		r.jobs[id] = j
	}
	pids, err := r.members(id)
	if err == nil {
		var list []rank.Member
		list, err = j.finder.Find(ctx, pids, nil)
		r.record(j, list)
	}
	if errors.Is(err, cgroup.ErrNotFound) { // the job is ending, or has no cgroup
		err = nil
	}
	if ctx.Err() != nil {
		err = errors.Join(err, fmt.Errorf("look for ranks of job %s: %w", id, context.Cause(ctx)))
	}
	var list []hostapi.RankUsage
	for key, f := range j.found {
		list = append(list, hostapi.RankUsage{World: key.World, Rank: key.Rank, PID: f.Process.PID, Comm: f.Comm})
	}
	slices.SortFunc(list, func(a, b hostapi.RankUsage) int {
		return cmp.Or(cmp.Compare(a.World, b.World), cmp.Compare(a.Rank, b.Rank))
	})
	return list, err
}

// record adds the ranks of a list. If a later program has the same name, its ranks replace those
// whose processes are gone.
func (r *ranks) record(j *rankedJob, list []rank.Member) {
	for _, m := range list {
		had, found := j.found[m.Rank.Key]
		switch {
		case found && (had.Process == m.Rank.Process || proc.Alive(r.procfs, had.Process)):
		case !found && len(j.found) >= hostapi.MaxRanks:
		case m.Rank.Process == m.ID():
			j.found[m.Rank.Key] = m.Rank
		}
	}
}
