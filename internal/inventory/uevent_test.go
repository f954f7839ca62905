package inventory

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

const enough = 20 * time.Second

// socket returns uevents that hear what is sent to the returned descriptor.
func socket(t *testing.T, rest, most time.Duration) (*uevents, int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	must.NoError(t, err)
	f := os.NewFile(uintptr(pair[0]), "uevents")
	t.Cleanup(func() { f.Close(); unix.Close(pair[1]) })
	return &uevents{file: f, rest: rest, max: most}, pair[1]
}

func send(t *testing.T, fd int, message string) {
	t.Helper()
	for {
		err := unix.Send(fd, []byte(message), 0)
		if errors.Is(err, unix.EAGAIN) { // the queue is full until it is read
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 1000); err != nil &&
				!errors.Is(err, unix.EINTR) {
				t.Fatal(err)
			}
			continue
		}
		must.NoError(t, err)
		return
	}
}

const (
	ofDRM = "add@/devices/pci0000:00/0000:07:00.0/drm/renderD128\x00" +
		"ACTION=add\x00DEVPATH=/devices/pci0000:00/0000:07:00.0/drm/renderD128\x00" +
		"SUBSYSTEM=drm\x00MAJOR=226\x00SEQNUM=1\x00"
	ofBlock = "change@/devices/virtual/block/loop0\x00" +
		"ACTION=change\x00DEVPATH=/devices/virtual/block/loop0\x00SUBSYSTEM=block\x00SEQNUM=2\x00"
)

func TestUeventsAreFiltered(t *testing.T) {
	for message, want := range map[string]bool{
		ofDRM: true, ofBlock: false, "": false, "add@/module/nvidia_uvm\x00ACTION=add\x00SUBSYSTEM=module\x00": true,
		"SUBSYSTEM=pci": true, "add@/x\x00SUBSYSTEM=pci_bus\x00": false,
		"add@SUBSYSTEM=drm\x00SUBSYSTEM=net\x00": false, "bind@/devices/x\x00SUBSYSTEM=pci\x00DRIVER=nvidia\x00": true,
		"libudev\x00\xfe\xed": false,
	} {
		if got := isOurs([]byte(message)); got != want {
			t.Errorf("%q: got %t, want %t", message, got, want)
		}
	}
}

// TestUeventsAreCoalesced: many announcements are one change, others are none, and what comes later
// is another.
func TestUeventsAreCoalesced(t *testing.T) {
	u, fd := socket(t, 300*time.Millisecond, enough)
	ctx, cancel := context.WithCancel(t.Context())
	changes, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() { ended <- u.watch(ctx, func() { changes <- struct{}{} }) }()
	for range 3 {
		for range 20 {
			send(t, fd, ofDRM)
			send(t, fd, ofBlock)
		}
		select {
		case <-changes:
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(enough):
			t.Fatal("no change told")
		}
	}
	send(t, fd, ofBlock)
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	case <-time.After(enough):
		t.Fatal("watch goes on after its context")
	}
	// A machine that stalls between two messages may make two changes of one burst, but not one of
	// each of the 60.
	if n := len(changes); n > 20 {
		t.Errorf("%d changes more than the three bursts", n)
	}
}

// TestUeventsWithoutRest: announcements that do not end are told all the same.
func TestUeventsWithoutRest(t *testing.T) {
	u, fd := socket(t, enough, 100*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changed, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() { ended <- u.watch(ctx, func() { changed <- struct{}{} }) }()
	for deadline := time.Now().Add(enough); ; {
		send(t, fd, ofDRM)
		select {
		case <-changed:
			cancel()
			<-ended
			return
		case <-time.After(time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("no change told")
		}
	}
}

// TestWatchKernel: the kernel's socket can be had, and is left when the context ends.
func TestWatchKernel(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := Watch(ctx, func() {}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's end", err)
	}
}
