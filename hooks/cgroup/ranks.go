package main

import (
	"context"
	"errors"
	"time"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/rank"
)

// With [mpi] per_task each MPI rank has a subgroup in its job's cgroup, which shows how much the
// rank uses. A launcher's daemon forks the ranks, and no event reports that. So the hook looks for
// ranks several times after a program starts or is attached, and at each periodic. Usage of a rank
// before it was found counts only for the job.

// rankLooks are the times to look for ranks after a program of the job starts or is attached. After
// that, the hook looks at each periodic.
var rankLooks = []time.Duration{
	1 * time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second, 31 * time.Second, 61 * time.Second,
}

// perTask reports whether the ranks of jobs that begin now get subgroups.
func (p *policy) perTask() bool { return p.MPI.Enabled && p.MPI.PerTask }

// scheduleLook records that a program is about to start, and returns when to look for its ranks. It
// returns 0 if ranks do not get subgroups.
func (s *state) scheduleLook() time.Duration {
	if !s.PerTask {
		return 0
	}
	s.RanksFrom = sinceBoot()
	return rankLooks[0]
}

// nextLook returns the time until the next of rankLooks, or 0 after the last.
func (s *state) nextLook() time.Duration {
	if !s.PerTask || s.RanksFrom == 0 {
		return 0
	}
	since := time.Duration(sinceBoot()-s.RanksFrom) * time.Microsecond
	for _, at := range rankLooks {
		if pause := at - since; pause > rankLooks[0]/2 { // else this call came a little early and counts
			return pause
		}
	}
	return 0
}

// rankMemory is what this process remembers about a job's ranks. If it is lost, ranks are only
// found more slowly.
type rankMemory struct {
	finder rank.Finder
	idle   map[string]bool // subgroups that had no processes at the last report
	many   bool            // it has been logged that there are too many
	failed bool            // an error has been logged
}

func (h *hook) rankMemory(id string, owner int) (m *rankMemory) {
	h.with(id, func(e *job) {
		if e.ranks == nil {
			environ := func(pid int) ([]byte, error) { return h.environs.Read(owner, pid) }
			e.ranks = &rankMemory{finder: rank.Finder{Procfs: h.roots.Proc, Environ: environ}}
		}
		m = e.ranks
	})
	return m
}

// tendRanks creates subgroups for new ranks and removes those of ranks that have ended. Errors do
// not affect the job: they are logged once per job, and everything is tried again the next time.
// spent is how long the event has searched so far, by owner of jobs. The caller holds the job's
// turn.
func (h *hook) tendRanks(ctx context.Context, j *cgroup.Job, owner int, spent map[int]time.Duration) {
	began := time.Now()
	defer func() { spent[owner] += time.Since(began) }()
	ctx, cancel := context.WithTimeout(ctx, searchTime-spent[owner])
	defer cancel()
	s := &rankSearch{h: h, j: j, rankMemory: h.rankMemory(j.ID(), owner)}
	for _, err := range []error{s.run(ctx), s.retire()} {
		if err != nil && !errors.Is(err, cgroup.ErrNotFound) && !s.failed {
			s.failed = true
			h.logOf(j.ID()).Warnf("not all of its ranks are counted separately: %v", err)
		}
	}
}

// rankSearch moves the ranks of one job to their subgroups, once.
type rankSearch struct {
	*rankMemory
	h      *hook
	j      *cgroup.Job
	groups rankGroups // nil until first used
}

// searchTime limits the search in all jobs of an owner. They may have very many processes, or some
// that hang, and other events of these jobs have to wait.
const searchTime = 5 * time.Second

// run moves the ranks that it finds, and repeats the search until there is nothing new. Children
// forked while their parent is being moved may be outside, while those of a moved process start
// inside. Processes that fork too fast, or that are not reached within searchTime, are found the
// next time.
func (s *rankSearch) run(ctx context.Context) error {
	for range rounds {
		pids, err := s.j.Ungrouped()
		if err != nil {
			return err
		}
		list, err := s.finder.Find(ctx, pids, s.outside)
		errs := []error{err}
		moved := 0
		for _, m := range list {
			name, err := s.group(m.Rank)
			if err == nil && name != "" {
				moved++
				err = s.move(name, m.Process)
			}
			errs = append(errs, err)
		}
		if err := errors.Join(errs...); err != nil || moved == 0 || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// outside returns the rank in whose subgroup a process is, or nil if it is in none of our
// subgroups.
func (s *rankSearch) outside(pid int) (*rank.Found, error) {
	name, ok, err := s.j.SubgroupOf(pid)
	if err != nil || !ok {
		return nil, err
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	for _, g := range s.groups {
		if g.name == name {
			return &g.rank, nil
		}
	}
	return nil, nil
}

func (s *rankSearch) load() (err error) {
	if s.groups == nil {
		s.groups, err = s.h.rankGroups(s.j)
	}
	return err
}

// group returns the name of a rank's subgroup, and creates it if necessary. The name is "" if the
// job has too many subgroups.
func (s *rankSearch) group(of *rank.Found) (string, error) {
	if err := s.load(); err != nil {
		return "", err
	}
	g, there := s.groups[of.Key]
	switch {
	case there && (g.rank.Process == of.Process || proc.Alive(s.h.roots.Proc, g.rank.Process)):
		return g.name, nil
	case there: // the next program in a world without a name, or the mark of a rank that never ran
	case len(s.groups) >= s.h.mostRanks():
		if !s.many {
			s.many = true
			s.h.logOf(s.j.ID()).Warnf("it has more than %d ranks: others are not counted separately", s.h.mostRanks())
		}
		return "", nil
	default:
		g.name = s.groups.name(of.Key)
	}
	g.rank = *of
	if err := g.make(s.j); err != nil {
		return "", err
	}
	s.groups[of.Key] = g
	return g.name, nil
}

// move moves a process of the job to a rank's subgroup.
func (s *rankSearch) move(name string, p proc.Process) error {
	if s.h.isOurs(p.PID) {
		return nil
	}
	m, alive, err := s.h.member(p.PID)
	if err != nil || !alive {
		return err
	}
	defer m.hold.Close()
	if m.StartTime != p.StartTime {
		return nil
	}
	err = s.j.AttachSubgroup(name, m.hold)
	if errors.Is(err, cgroup.ErrEnded) {
		return s.h.afterEnd(s.j, m.Process)
	}
	return err
}

// retire removes the subgroups of ranks that have ended. Otherwise a job that starts one program
// after another would fill the node with them. An empty subgroup is removed the second time it is
// found empty. By then the host knows the rank's usage.
//
// Two kinds of subgroups stay until the job's end. In a world without a name, the rank of the next
// program reuses the subgroup. If the kernel killed in a subgroup for lack of memory, v1 counts
// that only there.
func (s *rankSearch) retire() error {
	groups, err := s.h.rankGroups(s.j)
	errs := []error{err}
	idle := map[string]bool{}
	for k, g := range groups {
		if k.World == "" {
			continue
		}
		empty, err := s.j.SubgroupEmpty(g.name)
		if err == nil && empty && s.idle[g.name] {
			var u cgroup.SubgroupUsage
			if u, err = s.j.SubgroupUsage(g.name); err == nil && (u.OOMKills == nil || *u.OOMKills == 0) {
				err = s.j.RemoveSubgroup(g.name)
			}
		}
		if !errors.Is(err, cgroup.ErrBusy) && !errors.Is(err, cgroup.ErrNotFound) {
			errs = append(errs, err)
		}
		idle[g.name] = err == nil && empty
	}
	s.idle = idle
	return errors.Join(errs...)
}
