package kernfstest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// actorEnv makes the test binary a process that does what it is told: the real kernel's counterpart of Charge, Burn and
// Fork.
const actorEnv = "KERNFSTEST_ACTOR"

func TestMain(m *testing.M) {
	if os.Getenv(actorEnv) != "" {
		act(os.Stdin, os.Stdout)
		return
	}
	os.Exit(m.Run())
}

// order is what an actor is to do; its answer is an errno and, for a fork, the child.
type order struct {
	Charge Memory
	Free   bool // all anonymous memory
	Burn   time.Duration
	Fork   bool
}

type answer struct {
	Errno unix.Errno
	Child int
}

func act(in io.Reader, out io.Writer) {
	runtime.GOMAXPROCS(1)
	var anon [][]byte
	lines := json.NewDecoder(bufio.NewReader(in))
	for {
		var o order
		if lines.Decode(&o) != nil {
			return
		}
		var a answer
		var err error
		switch {
		case o.Fork:
			a.Child, err = child()
		case o.Burn > 0:
			burnFor(o.Burn)
		case o.Free:
			for _, b := range anon {
				unix.Munmap(b)
			}
			anon = nil
		default:
			var b []byte
			if b, err = charge(o.Charge); b != nil {
				anon = append(anon, b)
			}
		}
		errors.As(err, &a.Errno)
		json.NewEncoder(out).Encode(a)
	}
}

func child() (int, error) {
	cmd := exec.Command("/bin/sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	return cmd.Process.Pid, nil
}

func burnFor(d time.Duration) {
	var u unix.Rusage
	used := func() time.Duration {
		unix.Getrusage(unix.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	for start := used(); used() < start+d; {
		for i := 0; i < 1e5; i++ {
			u.Maxrss++ // work in user mode
		}
	}
}

// touch writes to each page. The race detector has no shadow of what Go has not allocated.
//
//go:norace
func touch(b []byte) {
	for i := 0; i < len(b); i += pageSize {
		b[i] = 1
	}
}

// charge touches every page, so that each is charged.
func charge(m Memory) (anon []byte, err error) {
	switch {
	case m.Anon > 0:
		b, err := unix.Mmap(-1, 0, int(m.Anon), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		// MAP_POPULATE would give up where a write has to wait for memory.
		touch(b)
		return b, err
	case m.Shmem > 0:
		fd, err := unix.MemfdCreate("actor", 0)
		if err != nil {
			return nil, err
		}
		return nil, unix.Fallocate(fd, 0, 0, m.Shmem)
	}
	f, err := os.CreateTemp("", "kernfstest")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name()) // the open file keeps its pages
	block := make([]byte, 64<<10)
	for n := int64(0); n < m.File; n += int64(len(block)) {
		if _, err := f.Write(block); err != nil {
			return nil, err
		}
	}
	return nil, f.Sync() // only clean pages are reclaimed at once
}

// actor is the test's end of such a process.
type actor struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	reaped sync.Once
}

func startActor(t *testing.T) *actor {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), actorEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a := &actor{cmd: cmd, in: in, out: json.NewDecoder(out)}
	// Do everything once, so that the memory that doing takes is not charged to the cgroups of the test.
	for _, o := range []order{{Charge: Memory{File: 1 << 20}}, {Charge: Memory{Shmem: 4096}}, {Charge: Memory{Anon: 4096}}, {Burn: 1}, {Free: true}} {
		if _, err := a.do(o); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// do waits for the answer; an actor that died over it gives ESRCH.
func (a *actor) do(o order) (answer, error) {
	b, err := json.Marshal(o)
	if err != nil {
		return answer{}, err
	}
	var got answer
	if _, err := fmt.Fprintf(a.in, "%s\n", b); err != nil {
		return answer{}, unix.ESRCH
	}
	if err := a.out.Decode(&got); err != nil {
		return answer{}, unix.ESRCH
	}
	if got.Errno != 0 {
		return got, got.Errno
	}
	return got, nil
}

func (a *actor) reap() { a.reaped.Do(func() { a.cmd.Wait() }) }
