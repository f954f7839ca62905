package proc

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// needHold skips where the kernel has no pidfds.
func needHold(t testing.TB) {
	t.Helper()
	h, _, err := Hold(procFS(t), os.Getpid())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	must.NoError(t, err)
	h.Close()
}

func TestHoldKeepsTheProcessItNames(t *testing.T) {
	needHold(t)
	procfs := procFS(t)
	cmd, id := sleeper(t)
	h, p, err := Hold(procfs, id.PID)
	must.NoError(t, err)
	defer h.Close()
	if p.PID != id.PID || p.StartTime != id.StartTime || p.UID != os.Getuid() || h.PID() != id.PID || p.Dead() {
		t.Errorf("%+v, want %+v", p, id)
	}
	must.NoError(t, h.Signal(unix.SIGKILL))
	must.NoError(t, unix.Waitid(unix.P_PID, id.PID, nil, unix.WEXITED|unix.WNOWAIT, nil))
	if err := h.Signal(0); err != nil {
		t.Errorf("signal 0 to a zombie: %v", err)
	}
	z, p, err := Hold(procfs, id.PID)
	if err != nil || !p.Dead() {
		t.Fatalf("a zombie: %+v, %v", p, err)
	}
	defer z.Close()
	cmd.Wait()
	for _, h := range []*Handle{h, z} {
		if err := h.Signal(0); !errors.Is(err, ErrGone) {
			t.Errorf("signal 0 once it was reaped = %v, want ErrGone", err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if err := h.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("second Close: %v", err)
		}
	}
	if _, _, err := Hold(procfs, id.PID); !errors.Is(err, ErrGone) {
		t.Errorf("a process that was reaped: %v, want ErrGone", err)
	}
}

// A thread's number is no process's.
func TestHoldThread(t *testing.T) {
	needHold(t)
	tid, done := make(chan int), make(chan struct{})
	defer close(done)
	for range 2 { // one of them may be the first thread, whose number is the process's
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			tid <- unix.Gettid()
			<-done
		}()
	}
	n, other := <-tid, <-tid
	if n == os.Getpid() {
		n = other
	}
	if _, _, err := Hold(procFS(t), n); !errors.Is(err, ErrGone) {
		t.Errorf("thread %d: %v, want ErrGone", n, err)
	}
}

// population starts n processes, which end with the benchmark.
func population(b *testing.B, n int) {
	b.Helper()
	for range n {
		cmd := exec.Command("/bin/sleep", "600")
		must.NoError(b, cmd.Start())
		b.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
	}
}

// BenchmarkSession finds a session of one among many processes.
func BenchmarkSession(b *testing.B) {
	for _, n := range []int{0, 2000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			population(b, n)
			cmd := exec.Command("/bin/sleep", "600")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			must.NoError(b, cmd.Start())
			defer cmd.Wait()
			defer cmd.Process.Kill()
			s := NewSessions(procFS(b))
			b.ReportAllocs()
			for b.Loop() {
				if pids, err := s.PIDs(cmd.Process.Pid); err != nil || len(pids) != 1 {
					b.Fatal(pids, err)
				}
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	procfs := procFS(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read(procfs, os.Getpid()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHold(b *testing.B) {
	needHold(b)
	procfs := procFS(b)
	b.ReportAllocs()
	for b.Loop() {
		h, _, err := Hold(procfs, os.Getpid())
		must.NoError(b, err)
		h.Close()
	}
}
