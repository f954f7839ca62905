package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Sessions finds the processes of sessions. Sessions is safe for concurrent use.
type Sessions struct {
	procfs *kernfs.FS

	mu         sync.Mutex
	known, own bool // see asks; it does not change while this process lives
}

// NewSessions returns what finds sessions in procfs. NewSessions reads nothing yet.
func NewSessions(procfs *kernfs.FS) *Sessions {
	return &Sessions{procfs: procfs}
}

// PIDs returns the processes of the session sid, in the order of /proc. A zombie may be among them,
// and a process that has just left the session. A caller that acts on one holds it and reads it. A
// process forked while /proc is walked may be missing. A caller that needs all of them asks again
// until nothing is new.
func (s *Sessions) PIDs(sid int) ([]int, error) {
	all, err := s.procfs.Numbers(".")
	if err != nil {
		return nil, fmt.Errorf("list session %d: %w", sid, err)
	}
	asks := s.asks()
	members := all[:0]
	for _, pid := range all {
		if asks { // getsid(2) takes a fiftieth of the time that a file takes
			switch has, err := unix.Getsid(pid); {
			case err == nil && has == sid:
				members = append(members, pid)
				continue
			case err == nil || errors.Is(err, unix.ESRCH):
				continue
			}
		}
		switch p, err := readStat(s.procfs, strconv.Itoa(pid)); {
		case errors.Is(err, ErrGone):
		case err != nil:
			return nil, fmt.Errorf("list session %d: %w", sid, err)
		case p.Session == sid && !p.Dead():
			members = append(members, pid)
		}
	}
	return members, nil
}

// asks reports whether procfs is where this process finds itself: a /proc of its own pid namespace,
// whose numbers system calls know. An answer that failed, for want of a descriptor say, is asked
// for again the next time.
func (s *Sessions) asks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known {
		self, err := readStat(s.procfs, "self")
		sid, sidErr := unix.Getsid(0)
		s.known = err == nil && sidErr == nil || errors.Is(err, ErrGone)
		s.own = err == nil && sidErr == nil && self.PID == os.Getpid() && sid == self.Session
	}
	return s.own
}
