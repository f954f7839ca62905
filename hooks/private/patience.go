package main

import (
	"context"
	"sync"
	"time"
)

// cleanTime bounds how long an event waits for a removal, which usually takes milliseconds. A user
// who lists a directory can hold its lock (see kernfs.Unlisted), and the removal then takes longer.
var cleanTime = 2 * time.Second

// lateTime is how long events wait less for a user's removals after one has taken longer than that.
const lateTime = time.Minute

// patience is how long events wait for removals. pbs_mom waits for each event. So a user with many
// jobs, who holds up each removal, must not make it wait cleanTime for each of them.
type patience struct {
	mu   sync.Mutex
	late map[int]time.Time // by uid: when a removal took too long
}

func newPatience() *patience { return &patience{late: map[int]time.Time{}} }

// wait waits until a removal of the user's files is done.
func (p *patience) wait(ctx context.Context, uid int, done <-chan struct{}) {
	limit := time.NewTimer(p.limit(uid))
	defer limit.Stop()
	select {
	case <-done:
	case <-ctx.Done():
	case <-limit.C:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.late[uid] = time.Now()
	}
}

func (p *patience) limit(uid int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, late := p.late[uid]; !late || time.Since(at) > lateTime {
		delete(p.late, uid)
		return cleanTime
	}
	return cleanTime / 20
}
