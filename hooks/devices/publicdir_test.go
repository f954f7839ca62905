package main

import (
	"context"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// A change that is made just when patience ends counts. The test makes it in place of run.
func TestChangeMadeAtTheLastMoment(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d := &publicDir{path: "/d", patience: time.Hour, todo: map[string]*dirChange{}}
	answer := make(chan error, 1)
	go func() { answer <- d.change(ctx, "1.srv", nil) }()
	must.Eventually(t, "the change is asked for", func() bool {
		d.mu.Lock()
		if c := d.todo["1.srv"]; c != nil {
			return true // locked
		}
		d.mu.Unlock()
		return false
	})
	cancel()
	time.Sleep(20 * time.Millisecond) // until change waits for the lock; without that, it sees done anyway
	d.todo["1.srv"].done <- nil
	d.mu.Unlock()
	must.NoError(t, must.Receive(t, "the answer", answer))
}
