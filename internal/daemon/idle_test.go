package daemon

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestDaemonIsIdleWithoutClientsAndJobs(t *testing.T) {
	const linger = 3 * time.Second
	isDone := func(i *idleness) bool {
		synctest.Wait()
		select {
		case <-i.Done():
			return true
		default:
			return false
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var jobs atomic.Bool
		i := newIdle(linger)
		i.Clients(1) // before it serves
		i.Start(jobs.Load)
		time.Sleep(time.Hour)
		if isDone(i) {
			t.Fatal("idle with a client")
		}
		jobs.Store(true)
		i.Clients(-1)
		time.Sleep(time.Hour)
		if isDone(i) {
			t.Fatal("idle with a job")
		}
		jobs.Store(false)
		i.JobEnded()
		time.Sleep(linger - time.Millisecond)
		if isDone(i) {
			t.Fatal("idle before it has lingered")
		}
		i.Clients(1)
		i.Clients(-1)
		time.Sleep(linger - time.Millisecond)
		if isDone(i) {
			t.Fatal("a client did not count anew")
		}
		time.Sleep(2 * time.Millisecond)
		if !isDone(i) {
			t.Error("not idle")
		}
		i.Clients(1)
		i.Clients(-1)
		time.Sleep(time.Hour) // closes no channel twice
	})
}

func TestDaemonThatStaysIsNeverIdle(t *testing.T) {
	var i *idleness
	i.Start(nil)
	i.Clients(1)
	i.JobEnded()
	if i.Done() != nil {
		t.Error("it has a moment at which it is idle")
	}
}
