package proc

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// ErrHangs means that a process's environment cannot be read now.
var ErrHangs = errors.New("its memory map is held")

// Environs reads environments for callers that must not hang with a process (see Environ). A read
// that takes too long continues in the background and occupies a thread. Until it ends, reads of
// that process fail at once. So do all reads on behalf of a user for whom too many continue.
type Environs struct {
	procfs *kernfs.FS
	wait   time.Duration // for one read

	mu   sync.Mutex
	hung map[int]int // by pid: reads that took too long and still continue
	of   map[int]int // by user on whose behalf it is: the number of these reads
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
	hangs := fmt.Errorf("read environment of process %d: %w", pid, ErrHangs)
	e.mu.Lock()
	known := e.hung[pid] > 0 || e.of[uid] >= mostHung
	e.mu.Unlock()
	if known {
		return nil, hangs
	}
	type answer struct {
		environ []byte
		err     error
	}
	read := make(chan answer, 1)
	late := false
	go func() {
		b, err := Environ(e.procfs, pid)
		e.mu.Lock()
		defer e.mu.Unlock()
		read <- answer{b, err}
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
	case a := <-read:
		return a.environ, a.err
	case <-timer.C:
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case a := <-read: // this process itself had no cpu
		return a.environ, a.err
	default:
		late = true
		e.hung[pid]++
		e.of[uid]++
		return nil, hangs
	}
}
