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

// Found is a rank with its topmost process, which the launcher has labelled.
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

// Finder finds the ranks among the processes of one job. It reads the environment of a process
// once. It is not safe for concurrent use.
type Finder struct {
	Procfs  *kernfs.FS
	Environ func(pid int) ([]byte, error) // does not hang: proc.Environs
	// Inner means that a descendant of a rank with a different label is a separate rank. An MPI
	// program that a rank has started has such processes. Otherwise the descendant belongs to the
	// rank.
	Inner bool

	calls int // of Find
	known map[int]*process
}

// process is one that was read.
type process struct {
	Member
	settled bool // Rank is final
	call    int  // the last call of Find that read it
}

// settledAge is the age after which a process can no longer become a rank. Between fork and exec a
// process has its parent's environment.
const settledAge = 5 * time.Second

// Find returns those of the job's processes pids that belong to a rank, oldest first. outside
// returns the rank of a parent that is not among pids, or nil; outside itself may be nil. A process
// that cannot be read belongs to no rank. A process whose environment hangs is read again the next
// time. So are processes that Find has not reached when ctx ends. The list is valid even with an
// error.
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

// rankOf returns the rank that p belongs to, or nil: its parent's rank, else the one in p's own
// environment.
func (s *search) rankOf(p *process) (*Found, error) {
	if p.settled || p.call == s.calls { // a reused pid can turn the chain of parents into a loop
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

// labelled returns the rank in p's own environment. read is false if the environment must be read
// again.
func (s *search) labelled(p *process) (own *Found, read bool, err error) {
	if s.hung >= mostHung {
		return nil, false, nil
	}
	environ, err := s.Environ(p.PID)
	if errors.Is(err, proc.ErrHangs) {
		s.hung++
		return nil, false, nil
	}
	var now proc.Process
	if err == nil {
		now, err = proc.Read(s.Procfs, p.PID) // the environment may belong to a later program than p
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
