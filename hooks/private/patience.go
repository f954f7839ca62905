package main

import (
	"context"
	"sync"
	"time"
)

// cleanTime bounds how long an event waits for a removal of files, which usually takes
// milliseconds. The removal then continues in the background.
var cleanTime = 2 * time.Second

// lateTime is how long further events of a user hardly wait after one has waited for cleanTime.
const lateTime = time.Minute

// patience is how long events wait for removals of users' files. A user can hold up a removal for
// any time: whoever lists a directory can hold its lock (see kernfs.Unlisted). pbs_mom waits for
// each event, so a user with many jobs must not make each of them wait for cleanTime.
type patience struct {
	late sync.Map // uids of the users whose removals hold up events
}

// wait waits until a removal of the user's files is done.
func (p *patience) wait(ctx context.Context, uid int, done <-chan struct{}) {
	limit := cleanTime
	_, late := p.late.Load(uid)
	if late {
		limit /= 20
	}
	select {
	case <-done:
	case <-ctx.Done():
	case <-time.After(limit):
		if !late {
			p.late.Store(uid, true)
			time.AfterFunc(lateTime, func() { p.late.Delete(uid) })
		}
	}
}
