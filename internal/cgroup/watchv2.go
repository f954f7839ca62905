package cgroup

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// news is a file that the kernel announced a change of, as it was read then.
type news struct {
	file string
	text []byte
	err  error
}

// follow reads file and tells of it, at once and whenever the kernel announces a change, until ctx ends or the cgroup is
// gone. No thread waits, only the runtime's poller. A job at its limit makes news all the time: a pause after each bounds
// what that costs, and is short enough for a kill that comes in it.
func follow(ctx context.Context, w kernfs.Watch, file string, tell chan<- news) {
	for {
		b, err := w.Read()
		select {
		case tell <- news{file, b, err}:
		case <-ctx.Done():
			return
		}
		if err != nil || sleep(ctx, quiet) != nil || w.Wait(ctx) != nil {
			return
		}
	}
}

// runV2 looks when the kernel has news, and at growing intervals while the job has processes that run: a v2 kernel
// announces that a limit was hit, that it killed, and that the last process left, but not that memory grows. A job that is
// frozen or empty is not looked at. A removal is announced to nobody: an empty cgroup is asked, every 10 s at last.
func (w *watcher) runV2(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	tell := make(chan news)
	var followers sync.WaitGroup
	defer followers.Wait()
	defer cancel()
	for _, file := range []string{memoryEvents, events} {
		f, err := w.dir.Watch(file)
		if err != nil {
			return err
		}
		followers.Go(func() {
			defer f.Close()
			follow(ctx, f, file, tell)
		})
	}
	state := map[string]uint64{"populated": 1}
	timer := time.NewTimer(w.pause)
	defer timer.Stop()
	removal := shortestRemoval
	for {
		news := false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case n := <-tell:
			m, err := n.parse()
			if err != nil {
				return err
			}
			news = true
			if n.file == events {
				state, removal = m, shortestRemoval
				w.pause, w.burst = w.shortest, now()
			}
		case <-timer.C:
			news = state["populated"] == 1
			if !news && !w.dir.Exists(".") {
				return ErrNotFound
			}
		}
		if news {
			if _, err := w.look(); err != nil {
				return err
			}
		}
		if state["populated"] == 0 || state["frozen"] == 1 {
			// Nothing can use memory before the kernel has told of it.
			w.peak.until = 0
			if err := w.store(); err != nil {
				return err
			}
		}
		switch {
		case state["populated"] == 0:
			timer.Reset(removal)
			removal = min(2*removal, longestRemoval)
		case state["frozen"] == 1:
			timer.Stop()
		default:
			timer.Reset(w.rest())
		}
	}
}

func (n news) parse() (map[string]uint64, error) {
	if n.err != nil {
		return nil, n.err
	}
	m, err := kernfs.ParseKeyed(n.text)
	if err != nil {
		return nil, &kernfs.ParseError{File: n.file, Text: string(n.text), Err: err}
	}
	return m, nil
}

const (
	quiet           = 40 * time.Millisecond
	shortestRemoval = 10 * time.Millisecond
	longestRemoval  = 10 * time.Second
)

// rest returns the pause. The longest one, up to twice as long, ends at the same time for all jobs of the node, so that
// they share a wake-up.
func (w *watcher) rest() time.Duration {
	if w.pause < w.longest {
		return w.pause
	}
	return 2*w.longest - now()%w.longest
}

// isGone tells whether err is how watching a job's cgroup ends when that is removed.
func isGone(err error) bool { return gone(err) || errors.Is(err, ErrNotFound) }
