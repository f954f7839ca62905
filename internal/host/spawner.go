package host

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// spawner starts processes from one thread of its own.
//
// PR_SET_PDEATHSIG names the thread that forked, not its process: the kernel sends the signal when that thread ends. The
// Go runtime ends threads as it likes, so a child that is to die with the host must be forked by a thread that lives
// exactly as long as the host does.
type spawner struct {
	tid  int // of the thread
	work chan func()
	quit chan struct{} // closed by close
	done chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func()), quit: make(chan struct{}), done: make(chan struct{})}
	started := make(chan struct{})
	go func() {
		// Never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		defer close(s.done)
		s.tid = unix.Gettid()
		close(started)
		for {
			select {
			case f := <-s.work:
				f()
			case <-s.quit:
				return
			}
		}
	}()
	<-started
	return s
}

// birthLimit is how long a process may take from its fork to its execve(2) before it is looked at.
const birthLimit = 500 * time.Millisecond

// do runs f on the thread and returns what it returned. After close it fails with os.ErrClosed.
func (s *spawner) do(f func() error) error {
	result := make(chan error, 1)
	select {
	case s.work <- func() { result <- f() }:
	case <-s.done:
		return os.ErrClosed
	}
	late := time.NewTicker(birthLimit)
	defer late.Stop()
	for {
		select {
		case err := <-result:
			return err
		case <-late.C:
			s.killUnborn()
		}
	}
}

// killUnborn kills the thread's child that still is the host's own program and is stopped. A job's
// owner can stop a process that has become his and is not yet the hook's program. Such a process is
// a vfork child (syscall.ForkExec): until it goes on no thread of the host starts another one. A
// child that a slow disk or a busy machine holds up is left alone.
func (s *spawner) killUnborn() {
	host, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", s.tid))
	if err != nil {
		return
	}
	for _, pid := range strings.Fields(string(children)) {
		n, err := strconv.Atoi(pid)
		if err != nil {
			continue
		}
		child, err := os.FindProcess(n) // held: the number may be another's before the signal
		if err != nil {
			continue
		}
		if exe, err := os.Readlink("/proc/" + pid + "/exe"); err == nil && exe == host && stopped(pid) {
			child.Kill()
		}
		child.Release()
	}
}

// stopped tells whether a signal or a tracer has stopped the process (proc_pid_stat(5)).
func stopped(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	state := bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:])
	return len(state) > 0 && (state[0] == 'T' || state[0] == 't')
}

// close ends the thread, and with it every process that was started with a death signal.
func (s *spawner) close() {
	close(s.quit)
	<-s.done
}
