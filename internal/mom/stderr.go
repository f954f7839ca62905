package mom

import (
	"cmp"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// stderr writes lines of hooks to the job's standard error, in order and each text once. Epilogue
// repeats what earlier events reported, and if epilogue failed, end repeats its lines.
//
// The pipe may be full and its reader asleep, but the job still has to end. So only the last flush,
// after the job's end, waits for the reader.
type stderr struct {
	file    *os.File // nil: nothing is written
	lines   []string // all that it got
	written int      // number of them
	err     error
}

func (s *stderr) add(lines []string) {
	for _, line := range lines {
		if !slices.Contains(s.lines, line) {
			s.lines = append(s.lines, line)
		}
	}
}

// flush writes the new lines while there is room for them, and waits for room for at most so long.
// A negative wait has no limit. Lines that were not written are left for the next flush.
func (s *stderr) flush(wait time.Duration) {
	end := time.Now().Add(wait)
	for ; s.file != nil && s.written < len(s.lines); s.written++ {
		line := s.lines[s.written] + "\n"
		if wait >= 0 && (len(line) > page || !s.hasRoom(max(0, time.Until(end)))) {
			return
		}
		_, err := io.WriteString(s.file, line)
		s.err = cmp.Or(s.err, err) // the first; the others say the same
	}
}

// page is the room that a pipe has when it is ready, on every architecture.
const page = 4096

// hasRoom reports whether a page can be written without waiting.
func (s *stderr) hasRoom(wait time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(s.file.Fd()), Events: unix.POLLOUT}}
	for {
		n, err := unix.Poll(fds, int(wait.Milliseconds()))
		if err != unix.EINTR {
			return err != nil || n > 0
		}
	}
}
