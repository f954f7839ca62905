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
	"github.com/hookhost/hookhost/internal/stray"
)

// ranks finds the MPI ranks among jobs' processes. A process is read once: what it has to say of
// its rank its environment said when it was started.
type ranks struct {
	procfs   *kernfs.FS
	members  func(job string) ([]int, error)
	environs *proc.Environs

	mu   sync.Mutex
	jobs map[string]*rankedJob
}

// rankedJob is what is known of a job's processes.
type rankedJob struct {
	labels map[int]label // by pid, of those that were read and live
	found  map[label]hostapi.RankUsage
}

// label names a rank. The label of a process that is no rank has rank -1.
type label struct {
	world string
	rank  int
}

func newRanks(procfs *kernfs.FS, members func(string) ([]int, error), environs *proc.Environs) *ranks {
	return &ranks{procfs: procfs, members: members, environs: environs, jobs: map[string]*rankedJob{}}
}

// forgetOthers forgets the jobs that are not in the list.
func (r *ranks) forgetOthers(list map[string]*hostapi.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.jobs, func(id string, _ *rankedJob) bool { return list[id] == nil })
}

// find returns the ranks of a job that were seen by now, by world and rank. Processes that are left
// when ctx ends are for the next time. The ranks beside an error hold.
func (r *ranks) find(ctx context.Context, id string) ([]hostapi.RankUsage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.jobs[id]
	pids, err := r.members(id)
	if errors.Is(err, cgroup.ErrNotFound) { // it ends, or has none
		err = nil
	}
	if j == nil {
		if len(pids) == 0 {
			return nil, err
		}
		j = &rankedJob{labels: map[int]label{}, found: map[label]hostapi.RankUsage{}}
		r.jobs[id] = j
	}
	errs := []error{err}
	if err == nil {
		maps.DeleteFunc(j.labels,
			func(pid int, _ label) bool { _, lives := slices.BinarySearch(pids, pid); return !lives })
	}
	fresh := map[int]proc.Process{}
	for _, pid := range pids {
		if _, known := j.labels[pid]; known {
			continue
		}
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("look for ranks of job %s: %w", id, context.Cause(ctx)))
			break
		}
		p, l, err := r.read(pid)
		switch {
		case errors.Is(err, proc.ErrGone):
		case err != nil:
			j.labels[pid] = label{rank: -1} // not at each look again
			errs = append(errs, err)
		case l.rank >= 0:
			j.labels[pid], fresh[pid] = l, p
		case proc.Age(p.StartTime) > stray.Young: // a younger one may be about to become a rank's program
			j.labels[pid] = l
		}
	}
	j.record(fresh)
	list := slices.SortedFunc(maps.Values(j.found), func(a, b hostapi.RankUsage) int {
		return cmp.Or(cmp.Compare(a.World, b.World), cmp.Compare(a.Rank, b.Rank))
	})
	return list[:min(len(list), hostapi.MaxRanks)], errors.Join(errs...)
}

// read returns a process and its label.
func (r *ranks) read(pid int) (proc.Process, label, error) {
	before, err := proc.Read(r.procfs, pid)
	if err != nil {
		return proc.Process{}, label{}, err
	}
	environ, err := r.environs.Read(before)
	if err != nil {
		return proc.Process{}, label{}, err
	}
	l := label{rank: -1}
	if of, ok := rank.Of(environ); ok {
		l = label{of.World, of.Rank}
	}
	p, err := proc.Read(r.procfs, pid)
	return p, l, err
}

// record notes the ranks among labelled processes that are new. Children inherit their rank's
// environment, so the rank is the one whose parent has not got it. A later program of the same name
// begins with a rank again whose process is gone.
func (j *rankedJob) record(fresh map[int]proc.Process) {
	for _, p := range slices.SortedFunc(maps.Values(fresh), func(a, b proc.Process) int {
		return cmp.Or(cmp.Compare(a.StartTime, b.StartTime), cmp.Compare(a.PID, b.PID))
	}) {
		l := j.labels[p.PID]
		if parent, known := j.labels[p.PPID]; known && parent == l {
			continue
		}
		had, found := j.found[l]
		if now, lives := j.labels[had.PID]; found && lives && now == l {
			continue
		}
		if !found && len(j.found) >= hostapi.MaxRanks {
			continue
		}
		j.found[l] = hostapi.RankUsage{World: l.world, Rank: l.rank, PID: p.PID, Comm: hostapi.Printable(p.Comm)}
	}
}
