package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/stray"
)

// scan is one pass over all processes.
type scan struct {
	*strays
	ctx      context.Context
	now      time.Time
	partial  bool
	list     map[string]*hostapi.Job
	jobs     []stray.Job
	owners   map[int]string // job owners, and the facts that verdicts about their processes depend on
	updates  map[string]*hostapi.JobUpdate
	sessions map[sessionOf]bool // already handed over: an attach moves a whole session
}

type sessionOf struct {
	job string
	id  int
}

func (s *scan) run(ctx context.Context) (map[string]*hostapi.JobUpdate, error) {
	inside := s.insiders()
	for _, j := range slices.SortedFunc(slices.Values(s.jobs),
		func(a, b stray.Job) int { return strings.Compare(a.ID, b.ID) }) {
		if j.UID > 0 {
			s.owners[j.UID] += fmt.Sprintf("%s %d,", j.ID, j.Session)
		}
	}
	maps.DeleteFunc(s.moved, func(uid, _ int) bool { _, owner := s.owners[uid]; return !owner })
	for uid := range s.owners {
		s.owners[uid] += strconv.Itoa(s.moved[uid])
	}
	names, err := s.procfs.Names(".")
	if err != nil {
		return nil, err
	}
	trusted := s.forks.few(s.procfs, len(names))
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 1 && !inside[pid] {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids) // so that a session's leader comes first
	var errs []error
	for _, pid := range pids {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("look for strays: %w", context.Cause(ctx)))
			break
		}
		if err := s.one(pid, trusted); err != nil && !errors.Is(err, proc.ErrGone) {
			errs = append(errs, err)
		}
	}
	if ctx.Err() == nil {
		maps.DeleteFunc(s.seen, func(_ int, k *sighting) bool { return k.scan != s.scans })
	}
	for id, n := range s.found {
		if n > 0 && s.list[id] != nil {
			s.update(id).Usage = &hostapi.HostUsage{Strays: n}
		}
	}
	return s.updates, errors.Join(errs...)
}

// insiders returns the processes that are in a job. It drops jobs without a cgroup, such as those
// that began before hookhost was installed. All their processes are outside, and there is no cgroup
// to move them into.
func (s *scan) insiders() map[int]bool {
	inside := map[int]bool{}
	s.jobs = slices.DeleteFunc(s.jobs, func(j stray.Job) bool {
		pids, err := s.members(j.ID) // processes missed because of an error are examined
		for _, pid := range pids {
			inside[pid] = true
		}
		return errors.Is(err, cgroup.ErrNotFound)
	})
	return inside
}

// one examines a process that is in no listed job. trusted means that a pid that was seen before
// still belongs to the same process.
func (s *scan) one(pid int, trusted bool) error {
	k := s.seen[pid]
	if k != nil && trusted && s.now.Before(k.until) {
		if k.scan = s.scans; s.settled(k) {
			return nil
		}
	}
	p, err := proc.Read(s.procfs, pid)
	if err != nil {
		return err
	}
	if proc.Age(p.StartTime) < stray.Young {
		return nil
	}
	if k == nil || k.start != p.StartTime || k.uid != p.UID {
		k = &sighting{start: p.StartTime, uid: p.UID}
		s.seen[pid] = k
	}
	if k.scan = s.scans; !s.now.Before(k.until) {
		k.until, k.judged, k.refused = s.now.Add(lookAgain), "", false
	}
	if s.settled(k) {
		return nil
	}
	f, v, err := s.judge(p)
	if err != nil {
		if !errors.Is(err, proc.ErrGone) {
			k.refused = true
		}
		return err
	}
	k.judged, k.class = s.owners[k.uid], v.Class
	return s.act(k, f, v)
}

// settled reports whether the verdict about a process cannot have changed.
func (s *scan) settled(k *sighting) bool {
	depends, owner := s.owners[k.uid]
	switch {
	case !owner, k.refused:
		return true
	case k.judged != depends:
		return false
	case k.class == stray.Certain:
		return s.scans < k.next
	}
	return true
}

// judge reads a process and classifies it.
func (s *scan) judge(p proc.Process) (stray.Facts, stray.Verdict, error) {
	f, err := s.facts.Read(p)
	if err != nil {
		return f, stray.Verdict{}, err
	}
	return f, stray.Match(f, s.jobs), nil
}
