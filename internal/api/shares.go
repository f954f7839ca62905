package api

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// shares bounds the number of connections: those of one peer, and those of all together. The latter
// leaves descriptors for the daemon itself and for root's callers.
type shares struct {
	most, each int

	mu  sync.Mutex
	all int
	of  map[string]int // by peer
}

// enter counts a connection of the peer. It fails, and counts nothing, if there are too many.
func (s *shares) enter(peer string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.of[peer] >= s.each:
		return fmt.Errorf("%s has %d connections, which is the limit", peer, s.each)
	case s.all >= s.most:
		return fmt.Errorf("%s: all users have %d connections, which is the limit", peer, s.most)
	}
	if s.of == nil {
		s.of = map[string]int{}
	}
	s.all++
	s.of[peer]++
	return nil
}

// leave returns one.
func (s *shares) leave(peer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.of[peer]--; s.of[peer] == 0 {
		delete(s.of, peer)
	}
}

// descriptors returns how many descriptors this process may have: RLIMIT_NOFILE, which Go raises to
// its hard limit.
func descriptors() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 1024 // the default for every process
	}
	return int(min(limit.Cur, 1<<20))
}
