package host

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestQueueKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queues
		first, err := q.take(t.Context(), "1")
		if err != nil {
			t.Fatal(err)
		}
		var order []int
		var giveUp []func()
		for i := range 20 {
			ctx := t.Context()
			if i%5 == 4 { // every fifth gives up
				cancelled, cancel := context.WithCancel(ctx)
				ctx = cancelled
				giveUp = append(giveUp, cancel)
			}
			go func() {
				release, err := q.take(ctx, "1")
				if err != nil {
					return
				}
				order = append(order, i)
				release()
			}()
			synctest.Wait() // it is in the line
		}
		other, err := q.take(t.Context(), "2") // another job waits for nobody
		if err != nil {
			t.Fatal(err)
		}
		other()
		for _, cancel := range giveUp {
			cancel()
		}
		synctest.Wait()
		first()
		synctest.Wait()
		want := 0
		for _, i := range order {
			if want%5 == 4 {
				want++
			}
			if i != want {
				t.Fatalf("order %v", order)
			}
			want++
		}
		if len(order) != 16 || len(q.waiting) != 0 {
			t.Errorf("%d turns, %d jobs left in memory", len(order), len(q.waiting))
		}
	})
}

// A turn that comes in the same moment as the end of the wait goes on to the next.
func TestQueueLosesNoTurn(t *testing.T) {
	var q queues
	for range 200 {
		first, err := q.take(t.Context(), "1")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if release, err := q.take(ctx, "1"); err == nil {
				release()
			}
		}()
		go cancel()
		first()
		<-done
		if release, err := q.take(t.Context(), "1"); err != nil {
			t.Fatal(err)
		} else {
			release()
		}
	}
	if len(q.waiting) != 0 {
		t.Errorf("%d jobs left in memory", len(q.waiting))
	}
}
