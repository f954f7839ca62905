package cgroup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hookhost/hookhost/internal/sample"
)

// Watch follows the job's memory until ctx ends, or until the cgroup is gone, and then returns nil.
// Watch finds the peak that Usage reports as MemPeak and keeps it with the cgroup, so that watching
// can be broken off and resumed. onOOM gets the number of processes that the kernel has killed so
// far whenever Watch learns of more, also of those from before. A kill that Watch does not learn of
// at once still counts in Usage. onMemory, which may be nil, gets the greatest anonymous and shared
// memory, in bytes, that a sample tells of since the one before. The beat calls it, so it must not
// wait. Watch fails with ErrUnsupported without a memory controller. A job needs one watcher; a
// second one does no harm.
//
// The samples are taken by the tree's beat. On v1 there are none until the kernel announces a
// change (see thresholds). When memory changes there is one every 2 to 20 milliseconds, and one
// every 50 if it goes on to grow. A v2 kernel announces kills, hits of limits, and that the job
// froze or lost its last process, but not that memory changes. So there the pauses grow, from 10
// milliseconds while memory changes to 15 to 30 seconds while it does not. A frozen job is not
// sampled. An empty one is asked only whether it is still there, after 10 milliseconds to 10
// seconds. A peak that came and went between two samples is known by the kernel's peak of all
// memory, if that tells (see peak).
//
// A kill is known within 100 milliseconds on either version: at the kernel's notice, or at the next
// sample. v2 sends at most one notice each 10 milliseconds, v1 one before it chooses the victim.
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

// serve calls onOOM until ctx or the watching ends.
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

// watcher is one run of Watch. Its listeners hear the kernel's notices, and the beat takes samples.
type watcher struct {
	dir    directory
	entry  *sample.Entry
	memory func(int64) // onMemory, never nil
	kills  chan int64  // the newest number that onOOM has not had; holds one
	ended  chan error  // holds one
	arm    chan int64  // v1: the memory at which thresholds are to be armed; holds one

	mu       sync.Mutex // guards the following, which listeners write
	notice   notice
	reported int64 // kills

	// The rest is the beat's.
	last   *memorySample
	peak   peak
	stored peak

	pause, shortest, longest time.Duration
	burst                    time.Duration // boot time at which memory began to grow
	removal                  time.Duration // v2: pause of an empty job
	empty, frozen            bool          // v2
}

// A burst is sampled closely. If it lasts longer, the kernel's peak of all memory tells what came
// between two samples (see peak), so that close ones would only cost.
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

// next returns the pause while memory grows.
func (w *watcher) next() time.Duration {
	if age := w.last.at - w.burst; age > closely {
		return max(w.shortest, min(age/8, growing))
	}
	return w.shortest
}

// Sample is for the beat.
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
		default: // a notice woke the entry once more
		}
	}
	return next
}

// sampleV1 samples while memory moves. Once it has been at rest for a while thresholds are armed,
// and the watcher sleeps until one is passed. Arming takes milliseconds, in which the cgroup cannot
// be removed, and a job that ends at once is spared it.
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

// sampleV2 samples when the kernel has news, and at growing intervals while the job has processes
// that run. A removal is announced to nobody.
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
		// Nothing can use memory before the kernel has announced it.
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

// sample takes a sample, keeps the peak and reports kills. moved is whether memory moves. The next
// pause is set.
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
	if grew { // it may have been more between the two samples
		most = w.peak.used
	}
	w.memory(most)
	moved = w.last != nil && !near(w.last.current, s.current)
	w.last = s
	if w.pause > closely { // v2: it was at rest
		w.burst = s.at
	}
	if w.pause = min(2*w.pause, w.longest); grew || moved && w.dir.h.v2 {
		w.pause = w.next()
	}
	w.report(kills)
	return moved || grew, w.store()
}

// report hands over the number of kills if it is greater than before.
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

// store keeps the peak with the cgroup.
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

// isGone reports whether err is how watching a job's cgroup ends when that is removed.
func isGone(err error) bool { return gone(err) || errors.Is(err, ErrNotFound) }
