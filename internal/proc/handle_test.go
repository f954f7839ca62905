package proc

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

// sleeper starts a process that lives until it is killed; reap it with cmd.Wait.
func sleeper(t testing.TB) (*exec.Cmd, hostapi.ProcessID) {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "60")
	must.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	id, err := identify(procFS(t), strconv.Itoa(cmd.Process.Pid))
	must.NoError(t, err)
	return cmd, id
}

func TestOpenRefusesAReusedPID(t *testing.T) {
	procfs := procFS(t)
	cmd, id := sleeper(t)
	other := id
	other.StartTime++
	if _, err := Open(procfs, other); !errors.Is(err, ErrGone) {
		t.Errorf("another process's start time: %v, want ErrGone", err)
	}
	if _, err := Open(procfs, hostapi.ProcessID{PID: 4194305}); !errors.Is(err, ErrGone) {
		t.Errorf("no process: %v, want ErrGone", err)
	}
	threads, err := procfs.Numbers("self/task")
	must.NoError(t, err)
	for _, thread := range threads {
		if _, err := OpenPID(thread); thread != os.Getpid() && !errors.Is(err, ErrGone) {
			t.Errorf("a thread: %v, want ErrGone", err)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	if _, err := Open(procfs, id); !errors.Is(err, ErrGone) {
		t.Errorf("a process that was reaped: %v, want ErrGone", err)
	}
}

func TestHandleSignal(t *testing.T) {
	procfs := procFS(t)
	cmd, id := sleeper(t)
	h, err := Open(procfs, id)
	must.NoError(t, err)
	defer h.Close()
	must.NoError(t, h.Signal(unix.SIGTERM))
	must.NoError(t, h.Wait(t.Context()))
	cmd.Wait()
	if err := h.Signal(unix.SIGTERM); !errors.Is(err, ErrGone) {
		t.Errorf("Signal after it was reaped = %v, want ErrGone", err)
	}
	if err := h.Wait(t.Context()); err != nil {
		t.Errorf("Wait again = %v", err)
	}
}

// TestHandleWaitHoldsNoThread waits for many processes, several times each: a thread for each would
// show.
func TestHandleWaitHoldsNoThread(t *testing.T) {
	const handles, waiters = 40, 5
	procfs := procFS(t)
	var cmds []*exec.Cmd
	var wg sync.WaitGroup
	waiting := make(chan struct{}, handles*waiters)
	before := len(threads(t))
	for range handles {
		cmd, id := sleeper(t)
		cmds = append(cmds, cmd)
		h, err := Open(procfs, id)
		must.NoError(t, err)
		defer h.Close()
		for range waiters {
			wg.Go(func() {
				waiting <- struct{}{}
				if err := h.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for range handles * waiters {
		<-waiting
	}
	if now := len(threads(t)); now > before+handles/2 {
		t.Errorf("%d threads before, %d while waiting for %d processes", before, now, handles)
	}
	for _, cmd := range cmds {
		cmd.Process.Kill()
	}
	wg.Wait()
}

func TestHandleWaitEndsEarly(t *testing.T) {
	procfs := procFS(t)
	_, id := sleeper(t)
	h, err := Open(procfs, id)
	must.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancelled, closed := make(chan error, 1), make(chan error, 1)
	go func() { cancelled <- h.Wait(ctx) }()
	go func() { closed <- h.Wait(context.Background()) }()
	cancel()
	if err := <-cancelled; !errors.Is(err, context.Canceled) {
		t.Errorf("Wait with a done context = %v", err)
	}
	h.Close()
	if err := <-closed; !errors.Is(err, os.ErrClosed) {
		t.Errorf("Wait on a closed handle = %v, want os.ErrClosed", err)
	}
	if err := h.Signal(unix.SIGKILL); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Signal on a closed handle = %v, want os.ErrClosed", err)
	}
}
