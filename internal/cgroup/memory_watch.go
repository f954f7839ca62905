package cgroup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hookhost/hookhost/internal/sample"
)

// Watch watches the job's memory until ctx ends or the cgroup is gone, and then returns nil. It
// finds the peak that Usage reports as MemPeak and stores it with the cgroup, so that watching can
// be interrupted and resumed. onOOM gets the number of processes that the kernel has killed so far,
// including earlier ones, whenever Watch sees more of them. A kill that Watch misses at first still
// counts in Usage. onMemory, which may be nil, gets the greatest anonymous and shared memory since
// the previous sample, in bytes. The beat calls it, so it must not block. Watch fails with
// ErrUnsupported if there is no memory controller. One watcher per job is enough, but a second one
// does no harm.
//
// The tree's beat takes the samples. On v1 there are none until the kernel announces a change (see
// thresholds). While memory changes there is a sample every 2 to 20 milliseconds, or every 50 if it
// keeps growing. A v2 kernel announces kills, hits of limits, and that the job froze or lost its
// last process, but not that memory changes. So the pauses there grow from 10 milliseconds while
// memory changes to 15 to 30 seconds while it does not. A frozen job is not sampled. For an empty
// one, Watch only checks whether it still exists, after 10 milliseconds to 10 seconds. If the
// kernel records the peak of all memory, it may show a peak between two samples (see peak).
//
// A kill is noticed within 100 milliseconds on either version, by an event of the kernel or the
// next sample. v2 sends at most one event every 10 milliseconds. v1 sends one before it chooses the
// victim.
func (j *Job) Watch(ctx context.Context, onOOM, onMemory func(int64)) error {
	d, ok := j.with("memory")
	if !ok {
		return fmt.Errorf("watch job %s: no memory controller: %w", j.id, ErrUnsupported)
	}
	w := newWatcher(d, onMemory)
	ctx, cancel := context.WithCancel(ctx)
	var listeners sync.WaitGroup
	defer listeners.Wait()
	defer cancel()
	w.entry = j.tree.beat.Add(w)
	defer w.entry.Remove()
	err := w.listen(ctx, &listeners)
	if err == nil {
		err = w.serve(ctx, onOOM)
	}
	if ctx.Err() != nil || isGone(err) {
		return nil
	}
	return fmt.Errorf("watch job %s: %w", j.id, err)
}

// serve calls onOOM until ctx ends or watching ends.
func (w *watcher) serve(ctx context.Context, onOOM func(int64)) error {
	for {
		select {
		case kills := <-w.kills:
			onOOM(kills)
		case err := <-w.ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watcher is one run of Watch. Its listeners wait for the kernel's events, and the beat takes
// samples.
type watcher struct {
	dir    directory
	entry  *sample.Entry
	memory func(int64) // onMemory, never nil
	kills  chan int64  // the newest number not yet passed to onOOM; holds one
	ended  chan error  // holds one
	arm    chan int64  // v1: the memory around which to arm thresholds; holds one

	mu       sync.Mutex // guards the next fields, which listeners write
	notice   notice
	reported int64 // the kills reported so far

	// Only the beat uses the rest.
	last   *memorySample
	peak   peak
	stored peak

	pause, shortest, longest time.Duration
	burst                    time.Duration // boot time when memory began to grow
	removal                  time.Duration // v2: pause of an empty job
	empty, frozen            bool          // v2
}

// A burst is sampled closely. If it lasts longer, the kernel's peak of all memory shows what
// happened between two samples (see peak), so close samples would only cost time.
const (
	closely = 200 * time.Millisecond
	growing = 50 * time.Millisecond

	shortestRemoval = 10 * time.Millisecond
	longestRemoval  = 10 * time.Second
)

func newWatcher(d directory, onMemory func(int64)) *watcher {
	if onMemory == nil {
		onMemory = func(int64) {}
	}
	w := &watcher{
		dir: d, memory: onMemory,
		kills: make(chan int64, 1), ended: make(chan error, 1), arm: make(chan int64, 1),
		shortest: 2 * time.Millisecond, longest: 20 * time.Millisecond, removal: shortestRemoval, burst: now(),
	}
	if d.h.v2 {
		w.shortest, w.longest = 10*time.Millisecond, 15*time.Second
	}
	w.pause = w.shortest
	p, _ := d.loadPeak()
	w.peak = p.resumed()
	return w
}

// next returns the pause while memory is growing.
func (w *watcher) next() time.Duration {
	if age := w.last.at - w.burst; age > closely {
		return max(w.shortest, min(age/8, growing))
	}
	return w.shortest
}

// Sample is called by the beat.
func (w *watcher) Sample() sample.Next {
	w.mu.Lock()
	n := w.notice
	w.notice = notice{}
	w.mu.Unlock()
	next, err := sample.Asleep, n.err
	switch {
	case err != nil:
	case w.dir.h.v2:
		next, err = w.sampleV2(n)
	default:
		next, err = w.sampleV1(n)
	}
	if err != nil {
		select {
		case w.ended <- err:
		default: // an event woke the entry again
		}
	}
	return next
}

// sampleV1 samples while memory is changing. When it has been stable for a while, thresholds are
// armed, and the watcher sleeps until one is crossed. Arming takes milliseconds, during which the
// cgroup cannot be removed. A job that ends right away is spared that.
func (w *watcher) sampleV1(n notice) (sample.Next, error) {
	if n.armed {
		w.peak.until = 0
	}
	switch {
	case n.changed:
		w.pause, w.burst = w.longest, now()
	case n.armed:
		return sample.Asleep, w.store()
	}
	pause := w.pause
	moved, err := w.sample()
	switch {
	case err != nil:
		return sample.Asleep, err
	case !moved && pause >= w.longest && !n.changed:
		w.arm <- w.last.current
		return sample.Asleep, nil
	}
	return sample.Next{After: w.pause}, nil
}

// sampleV2 samples after an event, and at growing intervals while the job has running processes.
// The kernel does not announce that a cgroup is removed.
func (w *watcher) sampleV2(n notice) (sample.Next, error) {
	if n.state {
		w.empty, w.frozen, w.removal = n.empty, n.frozen, shortestRemoval
		w.pause, w.burst = w.shortest, now()
	}
	if w.empty && !n.changed {
		if !w.dir.Exists(".") {
			return sample.Asleep, ErrNotFound
		}
	} else if _, err := w.sample(); err != nil {
		return sample.Asleep, err
	}
	if w.empty || w.frozen {
		// Nothing can use memory until the kernel announces it.
		w.peak.until = 0
		if err := w.store(); err != nil {
			return sample.Asleep, err
		}
	}
	switch {
	case w.empty:
		pause := w.removal
		w.removal = min(2*w.removal, longestRemoval)
		return sample.Next{After: pause, Slack: pause / 4}, nil
	case w.frozen:
		return sample.Asleep, nil
	case w.pause < w.longest:
		return sample.Next{After: w.pause}, nil
	}
	return sample.Next{After: w.longest, Slack: w.longest}, nil
}

// sample takes a sample, records the peak, reports kills and sets the next pause. It returns
// whether memory is changing.
func (w *watcher) sample() (moved bool, err error) {
	r := &reader{dir: w.dir}
	s := r.sample()
	kills := r.oomKills()
	if err := errors.Join(r.errs...); err != nil {
		return false, err
	}
	if s == nil {
		return false, fmt.Errorf("%s: %w", w.dir.Path("."), ErrNotFound)
	}
	before := w.peak.used
	w.peak = w.peak.add(s)
	grew := w.peak.used > before
	most := s.used()
	if grew { // there may have been more between the two samples
		most = w.peak.used
	}
	w.memory(most)
	moved = w.last != nil && !near(w.last.current, s.current)
	w.last = s
	if w.pause > closely { // v2: memory was stable
		w.burst = s.at
	}
	if w.pause = min(2*w.pause, w.longest); grew || moved && w.dir.h.v2 {
		w.pause = w.next()
	}
	w.report(kills)
	return moved || grew, w.store()
}

// report passes on the number of kills if it has grown.
func (w *watcher) report(kills *int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if kills == nil || *kills <= w.reported {
		return
	}
	w.reported = *kills
	select {
	case <-w.kills:
	default:
	}
	w.kills <- *kills
}

// store stores the peak with the cgroup.
func (w *watcher) store() error {
	if w.peak == w.stored {
		return nil
	}
	if err := w.dir.storePeak(w.peak); err != nil {
		return err
	}
	w.stored = w.peak
	return nil
}

// isGone reports whether err means that the job's cgroup was removed while it was watched.
func isGone(err error) bool { return gone(err) || errors.Is(err, ErrNotFound) }
