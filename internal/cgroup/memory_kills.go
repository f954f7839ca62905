package cgroup

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// listen waits for the kernel's events about kills until ctx ends or watching ends. It waits in the
// runtime's poller and needs no thread.
func (w *watcher) listen(ctx context.Context) {
	var err error
	if w.dir.h.v2 {
		err = w.listenV2(ctx)
	} else {
		err = w.listenV1(ctx)
	}
	if err != nil && ctx.Err() == nil {
		w.end(err)
	}
}

// eventPause is the pause after each event. A job at its limit causes events continuously.
const eventPause = 40 * time.Millisecond

// listenV2 reads memory.events immediately and whenever it changes. It also changes when a limit is
// hit.
func (w *watcher) listenV2(ctx context.Context) error {
	f, err := w.dir.Watch(memoryEvents)
	if err != nil {
		return err
	}
	defer f.Close()
	for oom := uint64(0); ; {
		text, err := f.Read()
		if err != nil {
			return err
		}
		m, err := kernfs.ParseKeyed(text)
		if err != nil {
			return &kernfs.ParseError{File: w.dir.Path(memoryEvents), Text: string(text), Err: err}
		}
		w.report(field(m, "oom_kill"))
		if m["oom"] > oom {
			oom = m["oom"]
			w.burst()
		}
		if err := sleep(ctx, eventPause); err != nil {
			return err
		}
		if err := f.Wait(ctx); err != nil {
			return err
		}
	}
}

// registerAfter is when v1 is asked for events. That takes the kernel an RCU grace period, about 8
// ms, in which the cgroup cannot be removed. A job that ends immediately is spared that.
const registerAfter = 100 * time.Millisecond

// listenV1 makes the kernel send an event when memory runs out (cgroup-v1/memory.rst, section 10).
// The kernel sends it before it chooses the victim, so samples taken afterwards count the kills. It
// sends a last event when the cgroup is removed.
func (w *watcher) listenV1(ctx context.Context) error {
	if err := sleep(ctx, registerAfter); err != nil {
		return err
	}
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	event := os.NewFile(uintptr(fd), "eventfd")
	defer event.Close() // this ends the registration
	stop := context.AfterFunc(ctx, func() { event.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	f, err := w.dir.OpenFile("memory.oom_control", os.O_RDONLY)
	if err != nil {
		return err
	}
	err = w.dir.Write("cgroup.event_control", fmt.Sprintf("%d %d", fd, f.Fd()))
	f.Close() // the kernel keeps what it needs
	for err == nil {
		w.burst()
		if err := sleep(ctx, eventPause); err != nil {
			return err
		}
		var count [8]byte
		_, err = event.Read(count[:])
	}
	return err
}
