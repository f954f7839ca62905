package main

import (
	"context"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// maxLockWait is how long an event waits for the tree's lock, which others hold for milliseconds.
const maxLockWait = 20 * time.Second

// lock takes the tree's lock, under which cgroups are chosen, made and marked as one step. The wait
// ends well before the event's alarm, at which the host would end this program. A holder that has
// the lock for so long is out of order, not this node.
func (h *hook) lock(ctx context.Context) (unlock func(), err error) {
	wait := maxLockWait
	if alarm, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(alarm)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return h.lockUntil(ctx)
}

// lockUntil is lock with all the time that ctx has.
func (h *hook) lockUntil(ctx context.Context) (unlock func(), err error) {
	unlock, err = h.tree.Lock(ctx)
	if err != nil {
		kind := hostapi.KindNode
		if ctx.Err() != nil {
			kind = hostapi.KindBusy
		}
		return nil, hostapi.Errorf(kind, "%w", err)
	}
	return unlock, nil
}

// treeLock is the tree's lock in the hands of an event that lets go of it on its way.
type treeLock struct {
	hook   *hook
	unlock func() // nil while it is not held
}

// release lets go of the lock; nothing where it is not held.
func (l *treeLock) release() {
	if l.unlock != nil {
		l.unlock()
		l.unlock = nil
	}
}

// again takes the lock where it is not held, also after the event's alarm: what was begun is to be
// brought to an end. Others hold it for about a millisecond at a time.
func (l *treeLock) again(ctx context.Context) error {
	if l.unlock != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockAgain)
	defer cancel()
	unlock, err := l.hook.lockUntil(ctx)
	if err != nil {
		return err
	}
	l.unlock = unlock
	return nil
}

// lockAgain is how long that may take.
const lockAgain = 10 * time.Second
