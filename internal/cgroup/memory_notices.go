package cgroup

import (
	"context"
	"sync"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// notice is what the kernel has announced since the last sample.
type notice struct {
	changed bool // memory may have changed, or a limit was hit
	armed   bool // v1: all thresholds around the last sample are armed

	state         bool // v2: empty and frozen are set
	empty, frozen bool

	err error // watching ends with this error
}

// listen starts goroutines that listen to the kernel until ctx ends. They wait in the runtime's
// poller and need no thread.
func (w *watcher) listen(ctx context.Context, listeners *sync.WaitGroup) error {
	if !w.dir.h.v2 {
		t, err := newThresholds(w.dir)
		if err != nil {
			return err
		}
		listeners.Go(func() {
			defer t.close()
			w.hearV1(ctx, t)
		})
		return nil
	}
	for _, file := range []string{memoryEvents, events} {
		f, err := w.dir.Watch(file)
		if err != nil {
			return err
		}
		listeners.Go(func() {
			defer f.Close()
			w.hearV2(ctx, f, file)
		})
	}
	return nil
}

// post changes the notice with add and requests a sample.
func (w *watcher) post(add func(*notice)) {
	w.mu.Lock()
	add(&w.notice)
	w.mu.Unlock()
	w.entry.Wake()
}

// hearV1 arms thresholds when the beat requests it, and then waits until one is crossed.
func (w *watcher) hearV1(ctx context.Context, t *thresholds) {
	for {
		select {
		case <-ctx.Done():
			return
		case current := <-w.arm:
			added, err := t.arm(ctx, current)
			if err == nil && !added { // while something was added, memory may have moved past it
				w.post(func(n *notice) { n.armed = true })
				if err = t.wait(ctx); err == nil {
					w.report((&reader{dir: w.dir}).oomKills())
				}
			}
			if ctx.Err() != nil {
				return
			}
			w.post(func(n *notice) { n.changed, n.err = !added, err })
		}
	}
}

// quiet is the pause of a v2 listener after each event. A job at its limit causes events all the
// time. The pause limits their cost, and is short enough for reporting a kill that happens during
// it.
const quiet = 40 * time.Millisecond

// hearV2 reads file immediately and whenever the kernel announces a change, until ctx ends or the
// cgroup is gone.
func (w *watcher) hearV2(ctx context.Context, f kernfs.Watch, file string) {
	for {
		text, err := f.Read()
		var m map[string]uint64
		if err == nil {
			if m, err = kernfs.ParseKeyed(text); err != nil {
				err = &kernfs.ParseError{File: w.dir.Path(file), Text: string(text), Err: err}
			}
		}
		if err == nil && file == memoryEvents {
			w.report(field(m, "oom_kill"))
		}
		w.post(func(n *notice) {
			if n.changed = true; file == events {
				n.state, n.empty, n.frozen = true, m["populated"] == 0, m["frozen"] == 1
			}
			if err != nil {
				n.err = err
			}
		})
		if err != nil || sleep(ctx, quiet) != nil || f.Wait(ctx) != nil {
			return
		}
	}
}
