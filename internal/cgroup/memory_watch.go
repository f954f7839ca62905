package cgroup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hookhost/hookhost/internal/sample"
)

// Watch samples the job's memory until ctx ends or the cgroup is gone, and then returns nil. It
// stores the greatest sum of anonymous and shared memory with the cgroup, where Usage reports it as
// MemPeak.
//
// At each sample, onMemory gets that sum in bytes and returns the longest pause until the next one.
// A nil onMemory means SamplePause. onOOM gets the number of processes that the kernel has killed
// so far, including earlier ones, whenever Watch sees more of them. Watch fails with ErrUnsupported
// if there is no memory controller. A job has one watcher at a time.
//
// The tree's beat takes the samples and calls onMemory, which must not block. The
// caller's goroutine stores peaks and calls onOOM. The first pauses are
// shorter when watching begins and when the kernel announces that memory ran out. They start at 10
// milliseconds and double each time. A kill is noticed within 100 milliseconds.
func (j *Job) Watch(ctx context.Context, onOOM func(int64), onMemory func(int64) time.Duration) error {
	d, ok := j.with("memory")
	if !ok {
		return fmt.Errorf("watch job %s: no memory controller: %w", j.id, ErrUnsupported)
	}
	w := newWatcher(d, onMemory)
	ctx, cancel := context.WithCancel(ctx)
	var listener sync.WaitGroup
	defer listener.Wait()
	defer cancel()
	w.entry = j.tree.beat.Add(w)
	defer w.entry.Remove()
	listener.Go(func() { w.listen(ctx) })
	err := w.serve(ctx, onOOM)
	if ctx.Err() != nil || gone(err) || errors.Is(err, ErrNotFound) {
		return nil
	}
	return fmt.Errorf("watch job %s: %w", j.id, err)
}

// serve stores peaks and calls onOOM until ctx ends or watching ends.
func (w *watcher) serve(ctx context.Context, onOOM func(int64)) error {
	for {
		select {
		case kills := <-w.kills:
			onOOM(kills)
		case p := <-w.peaks:
			if err := w.store(p); err != nil {
				return err
			}
		case err := <-w.ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// SamplePause is how long Watch waits between two samples unless onMemory wants them sooner.
const SamplePause = time.Second

// shortestPause is the first pause of a burst.
const shortestPause = 10 * time.Millisecond

// watcher is one run of Watch. Its listener waits for the kernel's events, and the beat takes
// samples.
type watcher struct {
	dir    directory
	entry  *sample.Entry
	memory func(int64) time.Duration // onMemory, never nil
	kills  chan int64                // the newest number not yet passed to onOOM; has room for one
	peaks  chan peak                 // the newest peak not yet stored; has room for one
	ended  chan error                // has room for one

	mu       sync.Mutex // guards the next fields, which the listener also writes
	pause    time.Duration
	reported int64 // the kills reported so far

	peak     peak // of all samples; only the beat uses it
	stored   peak // only serve uses it
	peakless bool // the kernel does not record the peak of all memory
}

func newWatcher(d directory, onMemory func(int64) time.Duration) *watcher {
	if onMemory == nil {
		onMemory = func(int64) time.Duration { return SamplePause }
	}
	return &watcher{
		dir: d, memory: onMemory, kills: make(chan int64, 1), peaks: make(chan peak, 1),
		ended: make(chan error, 1), pause: shortestPause, peak: peak{used: -1}, stored: peak{used: -1},
		peakless: !d.Exists(d.memory().peak),
	}
}

// burst takes a sample immediately, and the next ones after short pauses.
func (w *watcher) burst() {
	w.mu.Lock()
	w.pause = shortestPause
	w.mu.Unlock()
	w.entry.Wake()
}

// Sample is called by the beat.
func (w *watcher) Sample() sample.Next {
	used, err := w.sample()
	if err != nil {
		w.end(err)
		return sample.Asleep
	}
	pause := w.memory(used)
	w.mu.Lock()
	pause = min(pause, w.pause)
	w.pause = min(2*w.pause, SamplePause)
	w.mu.Unlock()
	return sample.Next{After: pause - pause/4, Slack: pause / 4}
}

// sample takes a sample and passes the peak on. It returns the anonymous and shared memory.
func (w *watcher) sample() (used int64, err error) {
	r := &reader{dir: w.dir}
	s := r.sample()
	if s == nil && len(r.errs) == 0 {
		return 0, fmt.Errorf("%s: %w", w.dir.Path("."), ErrNotFound)
	}
	if s == nil {
		return 0, errors.Join(r.errs...)
	}
	before := w.peak
	w.peak.used = max(w.peak.used, s.used())
	if all := w.all(r); all != nil {
		w.peak.all = max(w.peak.all, *all)
	}
	if err = errors.Join(r.errs...); err != nil {
		return 0, err
	}
	if w.peak != before || !w.dir.h.v2 { // v1's kills are known from samples alone
		newest(w.peaks, w.peak)
	}
	return s.used(), nil
}

// newest puts v in a channel with room for one, in place of an earlier value that nobody received.
func newest[V any](c chan V, v V) {
	select {
	case <-c:
	default:
	}
	c <- v
}

// store stores a peak after a sample and, on v1, reports kills.
func (w *watcher) store(p peak) error {
	r := &reader{dir: w.dir}
	if !w.dir.h.v2 {
		w.report(r.oomKills())
	}
	err := errors.Join(r.errs...)
	if err == nil && p != w.stored {
		err = w.dir.raisePeak(p)
		w.stored = p
	}
	return err
}

// all returns all of the job's memory if the kernel does not record its peak.
func (w *watcher) all(r *reader) *int64 {
	if !w.peakless {
		return nil
	}
	return r.number(w.dir.memory().current)
}

// end makes Watch return err.
func (w *watcher) end(err error) {
	select {
	case w.ended <- err:
	default:
	}
}

// report passes on the number of kills if it has grown.
func (w *watcher) report(kills *int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if kills == nil || *kills <= w.reported {
		return
	}
	w.reported = *kills
	newest(w.kills, *kills)
}
