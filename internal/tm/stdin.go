package tm

import (
	"os"
	"sync"
)

// maxQueue is how much of its standard input a command may leave unread before its caller has to
// wait. Signals wait too then: they come on the same stream.
const maxQueue = 1 << 20

// stdin is a command's standard input. A queue stands before the pipe, so that signals come through
// to a command that does not read.
type stdin struct {
	mu     sync.Mutex
	change *sync.Cond
	queue  [][]byte
	size   int
	ended  bool
	broken bool // nobody will read any more
}

// newStdin takes over w.
func newStdin(w *os.File) *stdin {
	s := &stdin{}
	s.change = sync.NewCond(&s.mu)
	go s.drain(w)
	return s
}

// write adds b, and keeps it.
func (s *stdin) write(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.size >= maxQueue && !s.broken {
		s.change.Wait()
	}
	if s.broken || s.ended {
		return
	}
	s.queue = append(s.queue, b)
	s.size += len(b)
	s.change.Broadcast()
}

// end says that no more will come.
func (s *stdin) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.change.Broadcast()
}

func (s *stdin) drain(w *os.File) {
	defer w.Close()
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && !s.ended {
			s.change.Wait()
		}
		if len(s.queue) == 0 {
			s.mu.Unlock()
			return
		}
		b := s.queue[0]
		s.queue, s.size = s.queue[1:], s.size-len(b)
		s.change.Broadcast()
		s.mu.Unlock()
		if _, err := w.Write(b); err != nil { // the command has closed it, or is gone
			s.mu.Lock()
			s.broken, s.queue, s.size = true, nil, 0
			s.change.Broadcast()
			s.mu.Unlock()
			return
		}
	}
}
