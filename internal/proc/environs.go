package proc

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// ErrHangs means that a thread holds a process's memory map, maybe forever.
var ErrHangs = errors.New("its memory map is held")

// Environs reads environments for callers that must not hang with a process (see Environ), and
// checks memory maps. A call that takes too long continues in the background and occupies a thread.
// Until it ends, calls for that process fail at once. So do all calls on behalf of a user for whom
// too many continue.
type Environs struct {
	procfs *kernfs.FS
	wait   time.Duration // for one call

	mu   sync.Mutex
	hung map[int]int // by pid: calls that took too long and still continue
	of   map[int]int // by user on whose behalf it is: the number of these calls
}

const (
	environWait = 2 * time.Second
	mostHung    = 8 // per user
)

// NewEnvirons returns a reader of the environments in procfs. Several goroutines may use it.
func NewEnvirons(procfs *kernfs.FS) *Environs {
	return &Environs{procfs: procfs, wait: environWait, hung: map[int]int{}, of: map[int]int{}}
}

// Read is Environ with a time limit of seconds. If that is too short, it fails with ErrHangs. It
// reads on behalf of the user uid, a job's owner. The process itself may have another uid: a user
// can have thousands of them in user namespaces (subuid(5)).
func (e *Environs) Read(uid, pid int) ([]byte, error) {
	type answer struct {
		environ []byte
		err     error
	}
	a, ok := bounded(e, uid, pid, func() answer {
		b, err := Environ(e.procfs, pid)
		return answer{b, err}
	})
	if !ok {
		return nil, fmt.Errorf("read environment of process %d: %w", pid, ErrHangs)
	}
	return a.environ, a.err
}

// bounded returns the result of call, or ok = false if that does not come in time.
func bounded[T any](e *Environs, uid, pid int, call func() T) (result T, ok bool) {
	e.mu.Lock()
	known := e.hung[pid] > 0 || e.of[uid] >= mostHung
	e.mu.Unlock()
	if known {
		return result, false
	}
	results := make(chan T, 1)
	late := false
	go func() {
		r := call()
		e.mu.Lock()
		defer e.mu.Unlock()
		results <- r
		if !late {
			return
		}
		if e.hung[pid]--; e.hung[pid] == 0 {
			delete(e.hung, pid)
		}
		if e.of[uid]--; e.of[uid] == 0 {
			delete(e.of, uid)
		}
	}()
	timer := time.NewTimer(e.wait)
	defer timer.Stop()
	select {
	case result = <-results:
		return result, true
	case <-timer.C:
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case result = <-results: // this process itself had no cpu
		return result, true
	default:
		late = true
		e.hung[pid]++
		e.of[uid]++
		return result, false
	}
}
