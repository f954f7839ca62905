package cgroup

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Watch follows the job's memory until ctx ends, or until the cgroup is gone, and then returns nil. It finds the peak that
// Usage reports as MemPeak and keeps it with the cgroup, so that watching can be broken off and taken up again. It calls
// onOOM with the number of processes that the kernel has killed so far whenever it learns of more, also of those
// from before; a kill that it does not learn of at once still counts in Usage. It fails with ErrUnsupported without a
// memory controller. One watcher at a time is enough for a job; a second one does no harm.
//
// On v1 it sleeps until the kernel announces a change (see thresholds); when memory changes it looks every 2 to 20
// milliseconds, and every 50 where it goes on to grow. On v2 the kernel announces kills, hits of limits, and that the job
// froze or lost its last process, but not that memory changes: so there it looks at growing intervals, from 10
// milliseconds while memory changes to 15 to 30 seconds while it does not, at the same time for all jobs; not at all while the
// job is frozen, and while it has no processes only whether it is still there, after 10 milliseconds to 10 seconds. A peak
// that came and went between two looks is known by the kernel's peak of all memory, where that tells (see peak).
//
// A kill is known within 100 milliseconds on either version: at the kernel's notice (v2 sends at most one each 10
// milliseconds, v1 one before it chooses the victim), or at the next look.
func (j *Job) Watch(ctx context.Context, onOOM func(kills int64)) error {
	d, ok := j.with("memory")
	if !ok {
		return fmt.Errorf("watch job %s: no memory controller: %w", j.id, ErrUnsupported)
	}
	w := newWatcher(d, onOOM)
	_, err := w.look()
	switch {
	case err != nil:
	case d.h.v2:
		err = w.runV2(ctx)
	default:
		err = w.runV1(ctx)
	}
	if ctx.Err() != nil || isGone(err) {
		return nil
	}
	return fmt.Errorf("watch job %s: %w", j.id, err)
}

// watcher is one run of Watch.
type watcher struct {
	dir    directory
	onOOM  func(int64)
	told   int64 // kills
	last   *sample
	peak   peak
	stored peak

	pause, shortest, longest time.Duration
	burst                    time.Duration // boot time at which memory began to grow
}

// A burst is looked at closely: where it lasts longer, the kernel's peak of all memory tells what came between two looks
// (see peak), so looking often would only cost.
const (
	closely = 200 * time.Millisecond
	growing = 50 * time.Millisecond
)

// next returns the pause while memory grows.
func (w *watcher) next() time.Duration {
	if age := w.last.at - w.burst; age > closely {
		return max(w.shortest, min(age/8, growing))
	}
	return w.shortest
}

func newWatcher(d directory, onOOM func(int64)) *watcher {
	w := &watcher{dir: d, onOOM: onOOM, shortest: 2 * time.Millisecond, longest: 20 * time.Millisecond, burst: now()}
	if d.h.v2 {
		w.shortest, w.longest = 10*time.Millisecond, 15*time.Second
	}
	w.pause = w.shortest
	p, _ := d.loadPeak()
	w.peak = p.taken()
	return w
}

// runV1 alternates between looking while memory moves and sleeping until a threshold is passed.
func (w *watcher) runV1(ctx context.Context) error {
	t, err := newThresholds(w.dir)
	if err != nil {
		return err
	}
	defer t.close()
	for {
		if err := w.settle(ctx); err != nil {
			return err
		}
		added, err := t.arm(ctx, w.last.current)
		if err != nil {
			return err
		}
		if added { // memory may have moved past them while the kernel took its time
			continue
		}
		w.peak.until = 0
		if err := w.store(); err != nil {
			return err
		}
		if err := t.wait(ctx); err != nil {
			return err
		}
		w.pause, w.burst = w.longest, now()
		if _, err := w.look(); err != nil {
			return err
		}
	}
}

// settle looks until memory has been at rest for a while. Thresholds are armed no sooner: that takes milliseconds, in
// which the cgroup cannot be removed, and a job that ends at once is spared it.
func (w *watcher) settle(ctx context.Context) error {
	for {
		if err := sleep(ctx, w.pause); err != nil {
			return err
		}
		pause := w.pause
		moved, err := w.look()
		if err != nil || !moved && pause >= w.longest {
			return err
		}
	}
}

// look takes a sample, keeps the peak and tells of kills. It says whether memory moves and sets the next pause.
func (w *watcher) look() (moved bool, err error) {
	r := &reader{dir: w.dir}
	s := r.sample()
	var kills *int64
	if w.dir.h.v2 {
		kills = field(r.keyed(memoryEvents), "oom_kill")
	} else {
		kills = r.oomKillsV1()
	}
	if err := errors.Join(r.errs...); err != nil {
		return false, err
	}
	if s == nil {
		return false, fmt.Errorf("%s: %w", w.dir.Path("."), ErrNotFound)
	}
	before := w.peak.used
	w.peak = w.peak.add(s)
	grew := w.peak.used > before
	moved = w.last != nil && !near(w.last.current, s.current)
	w.last = s
	if w.pause > closely { // v2: it was at rest
		w.burst = s.at
	}
	if w.pause = min(2*w.pause, w.longest); grew || moved && w.dir.h.v2 {
		w.pause = w.next()
	}
	if kills != nil && *kills > w.told {
		w.told = *kills
		w.onOOM(w.told)
	}
	return moved || grew, w.store()
}

// store keeps the record with the cgroup.
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
