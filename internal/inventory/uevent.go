package inventory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// watched are the subsystems whose devices Scan finds, and two more. pci announces when a driver
// takes or leaves a device. module is there for NVIDIA's drivers, which have no devices in sysfs.
// nvidia-uvm, which is loaded when it is first used, has no PCI device either.
var watched = map[string]bool{"drm": true, "accel": true, "habanalabs": true, "kfd": true, "pci": true, "module": true}

const (
	kernelUevents = 1 // the netlink group of the kernel's own messages; 2 has udev's

	// A driver that is loaded announces each device and each part of it. Watch waits for so much
	// rest, or for so much time in all.
	settle    = time.Second
	settleMax = 10 * time.Second
)

// Watch calls changed when the kernel has announced that devices came, went or changed
// (NETLINK_KOBJECT_UEVENT), once for announcements that follow each other within a second. Watch
// sleeps in between, and returns ctx's error when ctx ends. MIG instances that are made or removed
// are not announced; Signature sees those. Uevents arrive in each network namespace that the
// initial user namespace owns (lib/kobject_uevent.c).
func Watch(ctx context.Context, changed func()) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
		unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return fmt.Errorf("watch devices: socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelUevents}); err != nil {
		unix.Close(fd)
		return fmt.Errorf("watch devices: bind: %w", err)
	}
	f := os.NewFile(uintptr(fd), "uevents")
	defer f.Close()
	return (&uevents{file: f, rest: settle, max: settleMax}).watch(ctx, changed)
}

// uevents is a socket on which the kernel tells of devices.
type uevents struct {
	file      *os.File // in the runtime's poller: no thread sleeps for it
	rest, max time.Duration
}

func (u *uevents) watch(ctx context.Context, changed func()) error {
	defer context.AfterFunc(ctx, func() { u.file.Close() })()
	var until, last time.Time // zero while nothing is pending
	for {
		ours, err := u.next()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, os.ErrDeadlineExceeded):
			until, last = time.Time{}, time.Time{}
			changed()
		case err != nil:
			return fmt.Errorf("watch devices: %w", err)
		case ours:
			now := time.Now()
			if last.IsZero() {
				last = now.Add(u.max)
			}
			until = now.Add(u.rest)
			if until.After(last) {
				until = last
			}
		}
		if err := u.file.SetReadDeadline(until); err != nil && ctx.Err() == nil {
			return fmt.Errorf("watch devices: %w", err)
		}
	}
}

// next waits for a message and reports whether it concerns us.
func (u *uevents) next() (ours bool, err error) {
	conn, err := u.file.SyscallConn()
	if err != nil {
		return false, err
	}
	b := make([]byte, 8<<10) // a message has at most 2 KiB of environment (UEVENT_BUFFER_SIZE) and a path
	var n int
	var from unix.Sockaddr
	var failed error
	err = conn.Read(func(fd uintptr) bool {
		for {
			if n, from, failed = unix.Recvfrom(int(fd), b, 0); !errors.Is(failed, unix.EINTR) {
				return !errors.Is(failed, unix.EAGAIN)
			}
		}
	})
	switch {
	case err != nil:
		return false, err
	case errors.Is(failed, unix.ENOBUFS):
		return true, nil // messages were lost, so it may have been any
	case failed != nil:
		return false, failed
	}
	if a, ok := from.(*unix.SockaddrNetlink); ok && a.Pid != 0 {
		return false, nil // not from the kernel
	}
	return isOurs(b[:n]), nil
}

// isOurs reports whether a message (kobject_uevent_env of lib/kobject_uevent.c: "ACTION@DEVPATH"
// and NAME=value, each ended by a zero byte) is of a watched subsystem.
func isOurs(message []byte) bool {
	for field := range bytes.SplitSeq(message, []byte{0}) {
		if name, ok := bytes.CutPrefix(field, []byte("SUBSYSTEM=")); ok {
			return watched[string(name)]
		}
	}
	return false
}
