package mom

import (
	"cmp"
	"context"
	"io"
	"os"
	"slices"
	"sync"
)

// stderr writes lines of hooks to the job's standard error, each text once. If epilogue failed, end
// repeats its lines. Hooks use different texts for different lines (hostapi.Setup.Tell).
//
// The pipe may be full and its reader asleep, but the job still has to end. So a goroutine writes
// the lines in order, and lives as long as there is something to write.
type stderr struct {
	file *os.File // nil: nothing is written

	mu      sync.Mutex
	lines   []string      // all that it got
	written int           // number of them
	idle    chan struct{} // closed when everything is written; nil while nothing is being written
	err     error
}

// write queues new lines without waiting until they are written. It may be called at the same time
// from several goroutines.
func (s *stderr) write(lines []string) {
	if s.file == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range lines {
		if !slices.Contains(s.lines, line) {
			s.lines = append(s.lines, line)
		}
	}
	if s.written < len(s.lines) && s.idle == nil {
		s.idle = make(chan struct{})
		go s.drain()
	}
}

func (s *stderr) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.written < len(s.lines) {
		line := s.lines[s.written]
		s.mu.Unlock()
		_, err := io.WriteString(s.file, line+"\n")
		s.mu.Lock()
		s.written++
		s.err = cmp.Or(s.err, err) // the first; the others say the same
	}
	close(s.idle)
	s.idle = nil
}

// flush waits until everything is written, or ctx is done, and returns the first write error.
func (s *stderr) flush(ctx context.Context) error {
	s.mu.Lock()
	idle := s.idle
	s.mu.Unlock()
	if idle != nil {
		select {
		case <-idle:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
