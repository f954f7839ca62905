package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/rank"
)

// rankSearch looks for the ranks of one job that are in no cgroup of their own, once.
type rankSearch struct {
	h    *hook
	j    *cgroup.Job
	book *rankBook

	groups rankGroups           // nil until there is a rank to move
	known  map[int]proc.Process // that are in no rank's cgroup, by pid
	owners map[int]rankOwner    // what was found out of them
	hung   int                  // processes whose environment could not be read
}

// rankOwner is the rank that a process belongs to.
type rankOwner struct {
	ok   bool
	name string   // of its cgroup, where it has one: the parent is in there
	mark rankMark // else
}

// run moves what it finds, and looks again until there is nothing new: children that are forked while their parent is moved may be
// outside, those of a moved process are born inside. What outruns it is found the next time, as is what it has not come to in searchTime.
func (s *rankSearch) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	for range rounds {
		pids, err := s.j.Untasked()
		if err != nil {
			return err
		}
		fresh, err := s.read(ctx, pids)
		if err != nil || len(fresh) == 0 {
			return err
		}
		moved, err := s.sort(ctx, fresh)
		if err != nil || moved == 0 || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// searchTime bounds the search in a job of very many processes, for which the other jobs' events and the alarm do not wait.
const searchTime = 5 * time.Second

// read reads those of pids that it has not read yet, and forgets those that are there no more.
func (s *rankSearch) read(ctx context.Context, pids []int) (fresh []proc.Process, err error) {
	before := s.known
	s.known = make(map[int]proc.Process, len(pids))
	for _, pid := range pids {
		if p, ok := before[pid]; ok {
			s.known[pid] = p
			continue
		}
		if ctx.Err() != nil {
			break
		}
		p, alive, err := s.h.process(pid)
		if err != nil {
			return nil, err
		}
		if !alive || p.PID <= 1 || p.Kernel || s.h.isOurs(pid) {
			continue
		}
		s.known[pid] = p
		fresh = append(fresh, p)
	}
	for pid, start := range s.book.none { // a number that was given away again, or is in a rank by now
		if p, there := s.known[pid]; !there || p.StartTime != start {
			delete(s.book.none, pid)
		}
	}
	return fresh, nil
}

// sort moves each process that belongs to a rank to that rank's cgroup, and returns how many there were.
func (s *rankSearch) sort(ctx context.Context, fresh []proc.Process) (moved int, err error) {
	members := map[string][]proc.Process{} // by the name of the cgroup
	var errs []error
	for _, p := range fresh {
		if ctx.Err() != nil {
			break
		}
		o, err := s.owner(p)
		if err == nil && o.ok && o.name == "" {
			o.name, err = s.group(o.mark)
		}
		errs = append(errs, err)
		if err == nil && o.ok && o.name != "" {
			members[o.name] = append(members[o.name], p)
		}
	}
	for name, list := range members {
		moved += len(list)
		for _, p := range list {
			errs = append(errs, s.move(name, p))
		}
	}
	return moved, errors.Join(errs...)
}

// owner finds the rank that p belongs to: that of its parent, else the one that its own environment names. So a rank is the topmost
// process that is labelled, with its descendants, whatever these have in their environments.
func (s *rankSearch) owner(p proc.Process) (o rankOwner, err error) {
	if o, done := s.owners[p.PID]; done {
		return o, nil
	}
	s.owners[p.PID] = rankOwner{} // no chain of parents is endless, even where numbers were given away meanwhile
	if start, none := s.book.none[p.PID]; none && start == p.StartTime {
		return rankOwner{}, nil
	}
	if parent, there := s.known[p.PPID]; there && parent.StartTime <= p.StartTime {
		o, err = s.owner(parent)
	} else {
		o.name, o.ok, err = s.j.TaskOf(p.PPID)
		if _, _, ours := parseTaskName(o.name); !ours { // a container's
			o = rankOwner{}
		}
	}
	if err == nil && !o.ok {
		o, err = s.labelled(p)
	}
	if err == nil {
		s.owners[p.PID] = o
	}
	return o, err
}

// settled is how old a process is that does not become a rank any more: between fork and exec it has its parent's environment.
const settled = 5 * time.Second

// labelled reads a process's own environment.
func (s *rankSearch) labelled(p proc.Process) (rankOwner, error) {
	if s.hung > 1 {
		return rankOwner{}, nil
	}
	environ, err := s.h.environs.Read(p)
	switch {
	case errors.Is(err, proc.ErrGone):
		return rankOwner{}, nil
	case errors.Is(err, proc.ErrHangs): // not the others' fault
		s.hung++
		return rankOwner{}, nil
	case err != nil:
		return rankOwner{}, err
	}
	r, ok := rank.Of(environ)
	if !ok {
		if proc.Age(p.StartTime) > settled {
			s.book.none[p.PID] = p.StartTime
		}
		return rankOwner{}, nil
	}
	return rankOwner{ok: true, mark: rankMark{World: r.World, Rank: r.Rank, Process: p.ID(), Comm: p.Comm}}, nil
}

// group returns the name of a rank's cgroup, which it makes where there is none; "" where the job has too many.
func (s *rankSearch) group(m rankMark) (string, error) {
	if s.groups == nil {
		var err error
		if s.groups, err = s.h.rankGroups(s.j); err != nil {
			return "", err
		}
	}
	g, there := s.groups[m.key()]
	switch {
	case there && (g.mark.Process == m.Process || proc.Alive(s.h.roots.Proc, g.mark.Process)):
		return g.name, nil
	case there: // the next program of a world without a name, or the mark of one that never ran
	case len(s.groups) >= s.h.mostRanks():
		if !s.book.said["many"] {
			s.book.said["many"] = true
			s.h.logOf(s.j.ID()).Warnf("it has more than %d ranks: the others are not counted apart", s.h.mostRanks())
		}
		return "", nil
	default:
		g.name = s.groups.name(m.key())
	}
	text, err := json.Marshal(m)
	if err == nil {
		err = s.j.MakeTask(g.name, text)
	}
	if err != nil {
		return "", err
	}
	s.groups[m.key()] = rankGroup{g.name, m}
	return g.name, nil
}

// mostRanks bounds the cgroups that one job gets for its ranks: what a process calls itself is its user's to say, and each costs the
// kernel memory on every cpu.
func (h *hook) mostRanks() int { return min(hostapi.MaxRanks, max(64, 4*h.node.Online.Len())) }

// move moves a process of the job to a rank's cgroup.
func (s *rankSearch) move(name string, p proc.Process) error {
	m, alive, err := s.h.member(p.PID)
	if err != nil || !alive {
		return err
	}
	defer m.hold.Close()
	if m.StartTime != p.StartTime {
		return nil
	}
	err = s.j.AttachTask(name, m.hold)
	if errors.Is(err, cgroup.ErrEnded) {
		return s.h.afterEnd(s.j, m.Process)
	}
	return err
}
