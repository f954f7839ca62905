package rank

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

// Found is a rank with its topmost process, the one that the launcher has labelled.
type Found struct {
	Key
	Process hostapi.ProcessID `json:"process"`
	Comm    string            `json:"comm,omitempty"` // printable
}

// Member is a process that belongs to a rank.
type Member struct {
	proc.Process
	Rank *Found
}

// Finder finds the ranks among the processes of one job. A Finder reads the environment of a
// process once, and is not for several goroutines.
type Finder struct {
	Procfs  *kernfs.FS
	Environ func(p proc.Process) ([]byte, error) // without hanging: proc.Environs
	// Inner: a descendant of a rank that is labelled otherwise is a rank of its own. A program of
	// MPI that a rank has started has such processes. Else the descendant belongs to the rank.
	Inner bool

	calls int // of Find
	known map[int]*process
}

// process is one that was read.
type process struct {
	Member
	settled bool // Rank stays as it is
	call    int  // of Find that has looked at it last
}

// settledAge is how old a process is that does not become a rank any more. Between fork and exec a
// process has its parent's environment.
const settledAge = 5 * time.Second

// Find returns those of the job's processes pids that belong to a rank, the oldest first. Outside
// returns the rank of a parent that is not among pids, nil for none; outside may be nil. A process
// that cannot be read belongs to none. A process whose environment hangs is read again the next
// time, and so is what Find has not come to when ctx ends. The list beside an error holds.
func (f *Finder) Find(ctx context.Context, pids []int, outside func(pid int) (*Found, error)) ([]Member, error) {
	before := f.known
	f.known = make(map[int]*process, len(pids))
	f.calls++
	var errs []error
	for _, pid := range pids {
		if p := before[pid]; p != nil && p.settled && (ctx.Err() != nil || proc.Alive(f.Procfs, p.ID())) {
			f.known[pid] = p
			continue
		}
		if ctx.Err() != nil {
			continue
		}
		p, err := proc.Read(f.Procfs, pid)
		switch {
		case err == nil && !p.Dead():
			f.known[pid] = &process{Member: Member{Process: p}}
		case err != nil && !errors.Is(err, proc.ErrGone):
			errs = append(errs, err)
		}
	}
	search := &search{Finder: f, outside: outside}
	var list []Member
	for _, pid := range pids {
		p := f.known[pid]
		if p == nil || ctx.Err() != nil && !p.settled {
			continue
		}
		of, err := search.rankOf(p)
		errs = append(errs, err)
		if of != nil {
			list = append(list, p.Member)
		}
	}
	slices.SortFunc(list, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.StartTime, b.StartTime), cmp.Compare(a.PID, b.PID))
	})
	return list, errors.Join(errs...)
}

// search is one call of Find.
type search struct {
	*Finder
	outside func(pid int) (*Found, error)
	hung    int // environments that could not be read in time
}

// mostHung bounds how long one call of Find waits: see proc.Environs.
const mostHung = 2

// rankOf returns the rank that p belongs to, nil for none: that of its parent, else the one that
// p's own environment names.
func (s *search) rankOf(p *process) (*Found, error) {
	if p.settled || p.call == s.calls { // a reused pid can close the chain of parents to a loop
		return p.Rank, nil
	}
	p.call = s.calls
	above, err := s.above(p)
	if err != nil {
		return nil, err
	}
	p.Rank = above
	if above != nil && !s.Inner {
		p.settled = true
		return above, nil
	}
	own, read, err := s.labelled(p)
	if own != nil && (above == nil || own.Key != above.Key) {
		p.Rank = own
	}
	p.settled = read && (p.Rank != nil || proc.Age(p.StartTime) > settledAge)
	return p.Rank, err
}

// above returns the rank of p's parent.
func (s *search) above(p *process) (*Found, error) {
	if parent := s.known[p.PPID]; parent != nil && parent.StartTime <= p.StartTime {
		return s.rankOf(parent)
	}
	if s.outside == nil {
		return nil, nil
	}
	return s.outside(p.PPID)
}

// labelled returns the rank that p's own environment names. read is false where that is to be read
// once more.
func (s *search) labelled(p *process) (own *Found, read bool, err error) {
	if s.hung >= mostHung {
		return nil, false, nil
	}
	environ, err := s.Environ(p.Process)
	if errors.Is(err, proc.ErrHangs) {
		s.hung++
		return nil, false, nil
	}
	var now proc.Process
	if err == nil {
		now, err = proc.Read(s.Procfs, p.PID) // the environment may be a later program's than p
	}
	if errors.Is(err, proc.ErrGone) || err == nil && now.StartTime != p.StartTime {
		return nil, true, nil
	}
	if err != nil {
		return nil, true, err
	}
	key, is := Of(environ)
	if !is {
		return nil, true, nil
	}
	return &Found{Key: key, Process: p.ID(), Comm: hostapi.Printable(now.Comm)}, true, nil
}
