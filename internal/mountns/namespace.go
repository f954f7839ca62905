// Package mountns makes mount namespaces for jobs, and moves programs into them.
//
// A namespace is pinned: its file in nsfs is mounted on a file. So it outlives the program that
// made it, and exists while no process is in it. No process in it is needed to enter it.
package mountns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// New returns a new mount namespace with the mounts of this process, and with what prepare mounts.
// Later mounts of the node arrive there, but none returns to the node. The namespace lasts while
// its file is open, it is pinned, or a process is in it. prepare must not start goroutines.
//
// New fails with ErrHeld if prepare takes longer than mountTime. prepare then still runs, and what
// it made goes once it has ended. Until then every New fails at once, so few threads wait.
func New(prepare func() error) (*os.File, error) { return newOn(nil, prepare) }

// ErrHeld means that the kernel still waits for the lock of a directory, to mount something on it.
// Whoever lists a directory can hold its lock (see kernfs.Unlisted), and everybody may list /tmp.
var ErrHeld = errors.New("mounts take too long: a process that lists a mount point may hold its lock")

// mountTime bounds how long New waits for prepare, which usually takes milliseconds.
var mountTime = 5 * time.Second

// held is how many namespaces New has given up that are still being made.
var held atomic.Int32

// newOn is New on these cpus. nil means any.
func newOn(cpus *unix.CPUSet, prepare func() error) (*os.File, error) {
	if held.Load() > 0 {
		return nil, ErrHeld
	}
	var ns *os.File
	made := make(chan error, 1)
	go func() {
		made <- onThread(func() (err error) {
			if ns, err = newHere(cpus, prepare); err != nil {
				err = fmt.Errorf("make a mount namespace: %w", err)
			}
			return err
		})
	}()
	select {
	case err := <-made:
		return ns, err
	case <-time.After(mountTime):
	}
	held.Add(1)
	go func() {
		defer held.Add(-1)
		if <-made == nil {
			ns.Close()
		}
	}()
	return nil, ErrHeld
}

// newHere moves the calling thread into a new namespace.
func newHere(cpus *unix.CPUSet, prepare func() error) (*os.File, error) {
	if cpus != nil {
		if err := unix.SchedSetaffinity(0, cpus); err != nil {
			return nil, os.NewSyscallError("sched_setaffinity", err)
		}
	}
	before, err := os.Stat("/")
	if err != nil {
		return nil, err
	}
	switch err := unix.Unshare(unix.CLONE_NEWNS); err {
	case nil:
	case unix.ENOSPC:
		return nil, fmt.Errorf("unshare: %w: raise the sysctl user.max_mnt_namespaces", err)
	default:
		return nil, os.NewSyscallError("unshare", err)
	}
	// Shared again, so that they arrive in the namespaces of containers in the job, too.
	for _, propagation := range []uintptr{unix.MS_SLAVE, unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", unix.MS_REC|propagation, ""); err != nil {
			return nil, fmt.Errorf("change the propagation of mounts: %w", err)
		}
	}
	ns, err := os.Open("/proc/thread-self/ns/mnt")
	if err != nil {
		return nil, err
	}
	// Whoever enters sees the root of the namespace, which a chroot hides.
	if err = os.NewSyscallError("setns", unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS)); err == nil {
		if after, bad := os.Stat("/"); bad != nil || !os.SameFile(before, after) {
			err = errors.Join(errors.New("hookhost runs in a chroot, which a job would leave"), bad)
		} else {
			err = prepare()
		}
	}
	if err != nil {
		ns.Close()
		return nil, err
	}
	return ns, nil
}

// Create makes a namespace as New does, and pins it. If Create fails, it leaves nothing. prepare
// may be called more than once.
//
// The kernel only pins a namespace whose number is greater than that of the caller's namespace (see
// mnt_ns_loop in fs/namespace.c). Since Linux 6.18, each cpu has a supply of numbers. So a new
// namespace may have a smaller number, unless the caller is in the node's first one, and Create
// tries each cpu. It succeeds on the one that made the caller's.
func Create(pin string, prepare func() error) error {
	err := create(pin, nil, prepare)
	if !errors.Is(err, errNumber) {
		return err
	}
	var mine unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mine); err != nil {
		return os.NewSyscallError("sched_getaffinity", err)
	}
	for cpu, left := 0, mine.Count(); left > 0 && errors.Is(err, errNumber); cpu++ {
		if mine.IsSet(cpu) {
			var one unix.CPUSet
			one.Set(cpu)
			err = create(pin, &one, prepare)
			left--
		}
	}
	return err
}

func create(pin string, cpus *unix.CPUSet, prepare func() error) error {
	ns, err := newOn(cpus, prepare)
	if err != nil {
		return err
	}
	defer ns.Close()
	return pinAt(pin, ns)
}

// onThread runs f on a thread that ends afterwards, with the namespace that it is in.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() { // a process's first thread does not end
			defer runtime.UnlockOSThread()
			done <- onThread(f)
			return
		}
		done <- f()
	}()
	return <-done
}

var pinning sync.Mutex

// errNumber means that the kernel does not pin the namespace. A plain EINVAL may come from prepare.
var errNumber = errors.New("its number is too small")

// pinAt mounts the namespace on a new file. Its directory is for pins alone. If pinAt fails, it
// leaves no file.
func pinAt(pin string, ns *os.File) error {
	dir := filepath.Dir(pin)
	pinning.Lock()
	defer pinning.Unlock()
	// The kernel does not let a namespace be mounted where it would arrive in itself.
	if err := unix.Mount("", dir, "", unix.MS_PRIVATE, ""); err == unix.EINVAL { // it is not a mount yet
		err = unix.Mount(dir, dir, "", unix.MS_BIND, "")
		if err == nil {
			err = unix.Mount("", dir, "", unix.MS_PRIVATE, "")
		}
		if err != nil {
			return &fs.PathError{Op: "bind", Path: dir, Err: err}
		}
	} else if err != nil {
		return &fs.PathError{Op: "make private", Path: dir, Err: err}
	}
	f, err := os.OpenFile(pin, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	f.Close()
	err = unix.Mount(fmt.Sprintf("/proc/self/fd/%d", ns.Fd()), pin, "", unix.MS_BIND, "")
	if err == nil {
		return nil
	}
	if err == unix.EINVAL {
		err = fmt.Errorf("%w: %w", err, errNumber)
	}
	return errors.Join(&fs.PathError{Op: "pin a mount namespace at", Path: pin, Err: err}, os.Remove(pin))
}

// Unpin removes the pin. The namespace goes when no process is in it any more. Idempotent.
func Unpin(pin string) error {
	if err := Detach(pin); err != nil {
		return err
	}
	if err := os.Remove(pin); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Enter runs f in the pinned namespace, in its root directory. A process that f starts is in the
// namespace, too. It fails with fs.ErrNotExist if there is no pin.
func Enter(pin string, f func() error) error {
	ns, err := os.Open(pin)
	if err != nil {
		return err
	}
	defer ns.Close()
	return onThread(func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS); err != nil {
			return &fs.PathError{Op: "enter the mount namespace", Path: pin, Err: err}
		}
		return f()
	})
}
