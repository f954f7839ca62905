package plugin

import (
	"os"
	"runtime"
)

// spawner starts processes from one thread of its own.
//
// PR_SET_PDEATHSIG names the thread that forked, not its process: the kernel sends the signal when
// that thread ends. The Go runtime ends threads as it likes. So a child that is to die with the
// host must be forked by a thread that lives as long as the host does.
type spawner struct {
	work chan func()
	quit chan struct{} // closed by close
	done chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func()), quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		// Never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		defer close(s.done)
		for {
			select {
			case f := <-s.work:
				f()
			case <-s.quit:
				return
			}
		}
	}()
	return s
}

// do runs f on the thread and returns what it returned. After close it fails with os.ErrClosed.
func (s *spawner) do(f func() error) error {
	result := make(chan error, 1)
	select {
	case s.work <- func() { result <- f() }:
		return <-result
	case <-s.done:
		return os.ErrClosed
	}
}

// close ends the thread, and with it every process that was started with a death signal.
func (s *spawner) close() {
	close(s.quit)
	<-s.done
}
