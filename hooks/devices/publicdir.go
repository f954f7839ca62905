package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// publicDir makes the changes in a directory that everybody can list. Each of them waits in the
// kernel for the directory's lock, which anybody who lists it can hold (kernfs.Unlisted). So a
// goroutine makes the changes, one after the other, and events wait for it only until patience.
type publicDir struct {
	path     string // "" makes no changes
	patience time.Duration

	mu    sync.Mutex
	todo  map[string]*dirChange // the latest of each job; nil while there is no goroutine
	stuck bool                  // an event has lost patience, and there are changes still
}

type dirChange struct {
	do   func() error
	done chan error
}

// publicPatience is how long an event waits for a change, which usually takes a millisecond.
const publicPatience = 2 * time.Second

// errHeld means that a change has not been made yet and is made later.
var errHeld = errors.New("the change is made later")

// change makes a change for a job, or for all jobs if job is "". It replaces one for the same job
// that has not begun yet. If it is not done within patience, or if an earlier one still is not,
// change fails with errHeld.
func (d *publicDir) change(ctx context.Context, job string, do func() error) error {
	if d.path == "" {
		return nil
	}
	c := &dirChange{do, make(chan error, 1)}
	d.mu.Lock()
	if d.todo == nil {
		d.todo = map[string]*dirChange{}
		go d.run()
	}
	d.todo[job] = c
	stuck := d.stuck
	d.mu.Unlock()
	if !stuck {
		limit := time.NewTimer(d.patience)
		defer limit.Stop()
		select {
		case err := <-c.done:
			return err
		case <-limit.C:
		case <-ctx.Done():
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		select {
		case err := <-c.done: // just now
			return err
		default:
			d.stuck = d.todo != nil
		}
	}
	return fmt.Errorf("change directory %s: %w: a process that lists it may hold its lock: see fuser -v %[1]s", d.path,
		errHeld)
}

// run makes the changes until there are none. Nobody hears of an error of a late one; the sweep at
// exechost_startup removes what it left.
func (d *publicDir) run() {
	for {
		d.mu.Lock()
		var next *dirChange
		for job := range d.todo {
			next = d.todo[job]
			delete(d.todo, job)
			break
		}
		if next == nil {
			d.todo, d.stuck = nil, false
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
		next.done <- next.do()
	}
}
