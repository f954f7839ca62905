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

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// actorEnv makes the test binary a process that obeys orders: the real kernel's counterpart of
// Charge and Fork.
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
	Fork   bool
}

type answer struct {
	Errno unix.Errno
	Child int
}

func act(in io.Reader, out io.Writer) {
	runtime.GOMAXPROCS(1)
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
		default:
			err = charge(o.Charge)
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

// touch writes to each page. The race detector has no shadow of what Go has not allocated.
//
//go:norace
func touch(b []byte) {
	for i := 0; i < len(b); i += pageSize {
		b[i] = 1
	}
}

// charge touches every page of anonymous or shared memory, so that each is charged.
func charge(m Memory) error {
	if m.Shmem > 0 {
		fd, err := unix.MemfdCreate("actor", 0)
		if err != nil {
			return err
		}
		return unix.Fallocate(fd, 0, 0, m.Shmem)
	}
	b, err := unix.Mmap(-1, 0, int(m.Anon), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	// MAP_POPULATE would give up where a write has to wait for memory.
	touch(b)
	return err
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
	must.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), actorEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must.NoError(t, err)
	out, err := cmd.StdoutPipe()
	must.NoError(t, err)
	must.NoError(t, cmd.Start())
	a := &actor{cmd: cmd, in: in, out: json.NewDecoder(out)}
	// Do everything once, so that the memory that doing takes is not charged to the cgroups of the
	// test.
	for _, o := range []order{{Charge: Memory{Shmem: 4096}}, {Charge: Memory{Anon: 4096}}} {
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
