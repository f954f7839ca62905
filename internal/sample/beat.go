// Package sample is the beat by which a program looks at its jobs: one goroutine for all of them.
// The goroutine wakes up when the first of the jobs needs a sample, and samples each other job
// whose window is open. A beat sleeps while no job needs a sample, and ends with the last job.
package sample

import (
	"slices"
	"sync"
	"time"
)

// Sampler looks at one job.
type Sampler interface {
	// Sample takes a sample and returns when the next one is due. The beat never calls Sample twice
	// at a time. All jobs wait meanwhile, so Sample must not wait for anything but the kernel's
	// files. Sample must not call Remove.
	Sample() Next
}

// Next is the window of the next sample: it opens after After and closes Slack later. Slack lets
// the beat take samples of several jobs in one wake-up.
type Next struct{ After, Slack time.Duration }

// Asleep is for a sampler that has nothing to do until Wake.
var Asleep = Next{After: -1}

// Beat calls samplers. The zero value is ready and has no goroutine. A beat is safe for concurrent
// use.
type Beat struct {
	mu      sync.Mutex
	entries []*Entry
	wake    chan struct{} // holds one; nil while there is no goroutine
}

// Entry is a sampler on a beat.
type Entry struct {
	beat    *Beat
	sampler Sampler
	running sync.Mutex // held during Sample

	// The beat's mutex guards the following.
	removed, awake bool
	from, until    time.Time // of the next sample
}

// Add has s sampled, at once for the first time, until Remove.
func (b *Beat) Add(s Sampler) *Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := &Entry{beat: b, sampler: s, awake: true, from: time.Now()}
	e.until = e.from
	b.entries = append(b.entries, e)
	if b.wake == nil {
		b.wake = make(chan struct{}, 1)
		go b.run(b.wake)
	}
	b.rouse()
	return e
}

// rouse ends the pause of the goroutine. The caller has the mutex.
func (b *Beat) rouse() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Wake has a sample taken at once. A removed entry is not sampled.
func (e *Entry) Wake() {
	e.beat.mu.Lock()
	defer e.beat.mu.Unlock()
	if e.removed {
		return
	}
	e.awake, e.from = true, time.Now()
	e.until = e.from
	e.beat.rouse()
}

// Remove ends the sampling, and waits for a sample that is being taken. Remove is idempotent.
func (e *Entry) Remove() {
	b := e.beat
	b.mu.Lock()
	if !e.removed {
		e.removed = true
		b.entries = slices.DeleteFunc(b.entries, func(other *Entry) bool { return other == e })
		b.rouse()
	}
	b.mu.Unlock()
	e.running.Lock()
	defer e.running.Unlock()
}

// run samples until there is no entry left.
func (b *Beat) run(wake chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var due []*Entry
	for {
		var pause time.Duration
		var over bool
		if due, pause, over = b.next(due[:0]); over {
			return
		}
		for _, e := range due {
			e.sample()
		}
		if len(due) > 0 {
			continue
		}
		timer.Stop()
		if pause >= 0 {
			timer.Reset(pause)
		}
		select {
		case <-timer.C:
		case <-wake:
		}
	}
}

// next appends the entries that are due to list. If there are none it returns the pause until there
// are, negative for no end. over is true without entries: the goroutine is the beat's no more.
func (b *Beat) next(list []*Entry) (due []*Entry, pause time.Duration, over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.entries) == 0 {
		b.wake = nil
		return list, 0, true
	}
	now, first := time.Now(), time.Time{}
	for _, e := range b.entries {
		if e.awake && (first.IsZero() || e.until.Before(first)) {
			first = e.until
		}
	}
	switch {
	case first.IsZero():
		return list, -1, false
	case first.After(now):
		return list, first.Sub(now), false
	}
	for _, e := range b.entries {
		if e.awake && !e.from.After(now) {
			e.awake = false
			list = append(list, e)
		}
	}
	return list, 0, false
}

// sample takes one sample.
func (e *Entry) sample() {
	e.running.Lock()
	defer e.running.Unlock()
	e.beat.mu.Lock()
	removed := e.removed
	e.beat.mu.Unlock()
	if removed {
		return
	}
	next := e.sampler.Sample()
	e.beat.mu.Lock()
	defer e.beat.mu.Unlock()
	if e.awake || next.After < 0 { // awake: Wake was called meanwhile
		return
	}
	e.awake, e.from = true, time.Now().Add(next.After)
	e.until = e.from.Add(next.Slack)
}
