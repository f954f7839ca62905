package kernfstest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

// each runs a test on the fake and on the running kernel.
func each(t *testing.T, fake, kernel func(*testing.T) *world, controller string, test func(*testing.T, *world)) {
	for name, open := range map[string]func(*testing.T) *world{"fake": fake, "kernel": kernel} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.begin(t, controller)
			test(t, w)
		})
	}
}

func TestWatchWakesOnChanges(t *testing.T) {
	each(t, fakeHybrid, kernelV2, "v2", func(t *testing.T, w *world) {
		events := openWatch(t, w, "v2/cgroup.events")
		if got := readWatch(t, events); got != "populated 0\nfrozen 0\n" {
			t.Fatalf("new cgroup: %q", got)
		}
		asleep(t, events)

		pid := w.pid(t, "p")
		write1(t, w, "v2/cgroup.procs", fmt.Sprint(pid))
		waitWatch(t, events) // it changed before the wait began
		waitWatch(t, events) // and still, as nobody has read it
		if got := readWatch(t, events); got != "populated 1\nfrozen 0\n" {
			t.Fatalf("with a process: %q", got)
		}
		asleep(t, events)

		awake := make(chan error, 1)
		go func() { awake <- events.Wait(t.Context()) }()
		w.end(pid)
		must.NoError(t, <-awake)
		if got := readWatch(t, events); got != "populated 0\nfrozen 0\n" {
			t.Fatalf("without a process: %q", got)
		}
	})
}

func TestWatchRemoved(t *testing.T) {
	each(t, fakeHybrid, kernelV2, "v2", func(t *testing.T, w *world) {
		must.NoError(t, w.cgroup.Mkdir(w.file("v2/a")))
		events := openWatch(t, w, "v2/a/cgroup.events")
		readWatch(t, events)
		must.NoError(t, w.cgroup.Rmdir(w.file("v2/a")))
		if _, err := events.Read(); !errors.Is(err, unix.ENODEV) {
			t.Errorf("read of a removed cgroup's file: got %v, want ENODEV", err)
		}
		waitWatch(t, events)
	})
}

func TestWatchCancelled(t *testing.T) {
	each(t, fakeHybrid, kernelV2, "v2", func(t *testing.T, w *world) {
		events := openWatch(t, w, "v2/cgroup.events")
		readWatch(t, events)
		ctx, cancel := context.WithCancel(t.Context())
		awake := make(chan error, 1)
		go func() { awake <- events.Wait(ctx) }()
		cancel()
		if err := <-awake; !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled wait: %v", err)
		}
		// The watch is as good as new.
		write1(t, w, "v2/cgroup.freeze", "1")
		waitWatch(t, events)
	})
}

func openWatch(t *testing.T, w *world, file string) kernfs.Watch {
	t.Helper()
	events, err := w.cgroup.Watch(w.file(file))
	must.NoError(t, err)
	t.Cleanup(func() { events.Close() })
	return events
}

func readWatch(t *testing.T, events kernfs.Watch) string {
	t.Helper()
	b, err := events.Read()
	must.NoError(t, err)
	return string(b)
}

func waitWatch(t *testing.T, events kernfs.Watch) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := events.Wait(ctx); err != nil {
		t.Fatalf("wait: %v", err)
	}
}

// asleep fails when the watch wakes without a change.
func asleep(t *testing.T, events kernfs.Watch) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := events.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("wait for nothing: got %v, want the deadline", err)
	}
}

func write1(t *testing.T, w *world, file, value string) {
	t.Helper()
	must.NoError(t, w.cgroup.Write(w.file(file), value))
}

func TestEventControl(t *testing.T) {
	each(t, fakeV1, kernelV1, "memory", func(t *testing.T, w *world) {
		must.NoError(t, w.cgroup.Mkdir(w.file("memory/a")))
		oom := listenOOM(t, w)
		if n := oom.read(); n != 0 {
			t.Fatalf("new listener: %d signals", n)
		}
		pid := w.pid(t, "p")
		write1(t, w, "memory/a/cgroup.procs", fmt.Sprint(pid))
		write1(t, w, "memory/memory.limit_in_bytes", "32M") // that of a cgroup above counts as well
		must.NoError(t, w.charge(pid, Memory{Anon: 16 << 20}))
		if n := oom.read(); n != 0 {
			t.Fatalf("below the limit: %d signals", n)
		}
		if err := w.charge(pid, Memory{Anon: 48 << 20}); !errors.Is(err, unix.ESRCH) {
			t.Fatalf("charge above the limit: %v", err)
		}
		oom.await(t, "out of memory")
		w.end(pid)
		must.NoError(t, w.cgroup.Rmdir(w.file("memory/a")))
		oom.await(t, "removed")
	})
}

// eventFD is a non-blocking eventfd.
type eventFD int

func listenOOM(t *testing.T, w *world) eventFD {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	must.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	f, err := w.cgroup.OpenFile(w.file("memory/a/memory.oom_control"), os.O_RDONLY)
	must.NoError(t, err)
	defer f.Close()
	target := f.Fd()
	write1(t, w, "memory/a/cgroup.event_control", fmt.Sprintf("%d %d", fd, target))
	return eventFD(fd)
}

// read returns how many signals came since the last read.
func (e eventFD) read() uint64 {
	var b [8]byte
	if _, err := unix.Read(int(e), b[:]); err != nil {
		return 0
	}
	return binary.NativeEndian.Uint64(b[:])
}

func (e eventFD) await(t *testing.T, what string) {
	t.Helper()
	if !await(func() bool { return e.read() > 0 }) {
		t.Fatalf("no signal: %s", what)
	}
}

func TestXattrIsKeptByTheCgroup(t *testing.T) {
	for controller, worlds := range map[string][2]func(*testing.T) *world{
		"memory": {fakeV1, kernelV1}, "v2": {fakeHybrid, kernelV2},
	} {
		t.Run(controller, func(t *testing.T) {
			each(t, worlds[0], worlds[1], controller, func(t *testing.T, w *world) {
				dir := w.file(controller)
				if _, err := w.cgroup.Xattr(dir, "trusted.job"); !errors.Is(err, unix.ENODATA) {
					t.Errorf("not set: got %v, want ENODATA", err)
				}
				for _, value := range []string{"12.srv", "", string(make([]byte, 3000))} {
					must.NoError(t, w.cgroup.SetXattr(dir, "trusted.job", []byte(value)))
					got, err := w.cgroup.Xattr(dir, "trusted.job")
					if err != nil || string(got) != value {
						t.Errorf("got %d bytes, %v; want %d", len(got), err, len(value))
					}
				}
				if _, err := w.cgroup.Xattr(dir+"/gone", "trusted.job"); !errors.Is(err, unix.ENOENT) {
					t.Errorf("no directory: got %v, want ENOENT", err)
				}
			})
		})
	}
}

func TestFlockExcludesAnother(t *testing.T) {
	each(t, fakeV1, kernelV1, "memory", func(t *testing.T, w *world) {
		var fds [2]int
		for i := range fds {
			f, err := w.cgroup.OpenFile(w.file("memory"), os.O_RDONLY)
			must.NoError(t, err)
			defer f.Close()
			fds[i] = int(f.Fd())
		}
		must.NoError(t, unix.Flock(fds[0], unix.LOCK_EX|unix.LOCK_NB))
		if err := unix.Flock(fds[1], unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			t.Fatalf("second lock: got %v, want EWOULDBLOCK", err)
		}
		must.NoError(t, unix.Flock(fds[0], unix.LOCK_UN))
		if err := unix.Flock(fds[1], unix.LOCK_EX|unix.LOCK_NB); err != nil {
			t.Fatalf("after unlock: %v", err)
		}
	})
}

// TestWriteNothing: a write of no bytes reaches no file, and changes nothing.
func TestWriteNothing(t *testing.T) {
	each(t, fakeV1, kernelV1, "cpuset", func(t *testing.T, w *world) {
		file := w.file("cpuset/cpuset.cpus")
		f, err := w.cgroup.OpenFile(file, os.O_WRONLY)
		must.NoError(t, err)
		defer f.Close()
		if n, err := f.Write(nil); n != 0 || err != nil {
			t.Errorf("write: %d, %v", n, err)
		}
		if b, err := w.cgroup.ReadFile(file); err != nil || string(b) == "\n" {
			t.Errorf("after the write: %q, %v", b, err)
		}
		if err := w.cgroup.Write(file, ""); !errors.Is(err, unix.EINVAL) {
			t.Errorf("FS.Write: got %v, want EINVAL", err)
		}
	})
}
