package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

// inLine returns how many wait for the job's turn.
func (q *turns) inLine(id string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting[id])
}

func TestQueueKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q turns
		first, err := q.acquire(t.Context(), "1", course)
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
				release, err := q.acquire(ctx, "1", course)
				if err != nil {
					return
				}
				order = append(order, i)
				release()
			}()
			synctest.Wait() // it is in the line
		}
		other, err := q.acquire(t.Context(), "2", course) // another job waits for nobody
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
	var q turns
	for range 200 {
		first, err := q.acquire(t.Context(), "1", course)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if release, err := q.acquire(ctx, "1", course); err == nil {
				release()
			}
		}()
		go cancel()
		first()
		<-done
		if release, err := q.acquire(t.Context(), "1", course); err != nil {
			t.Fatal(err)
		} else {
			release()
		}
	}
	if len(q.waiting) != 0 {
		t.Errorf("%d jobs left in memory", len(q.waiting))
	}
}

// A late comer goes first where his class does; within a class nobody is overtaken.
func TestQueueGoesByClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q turns
		first, err := q.acquire(t.Context(), "1", request)
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		for i, c := range []class{request, inquiry, course, request, course, inquiry, request} {
			go func() {
				release, err := q.acquire(t.Context(), "1", c)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, fmt.Sprint(c, i))
				release()
			}()
			synctest.Wait()
		}
		first()
		synctest.Wait()
		if got, want := strings.Join(order, ","), "0 2,0 4,1 1,1 5,2 0,2 3,2 6"; got != want {
			t.Errorf("order %s, want %s", got, want)
		}
	})
}

// Requests are bounded in number and in time; nothing else is.
func TestQueueBoundsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q turns
		first, err := q.acquire(t.Context(), "1", request)
		if err != nil {
			t.Fatal(err)
		}
		var late atomic.Int32
		var wait sync.WaitGroup
		for range maxRequests {
			wait.Go(func() {
				if _, err := q.acquire(t.Context(), "1", request); err == nil ||
					!strings.Contains(err.Error(), "no turn in 2m0s") {
					t.Errorf("%v", err)
				}
				late.Add(1)
			})
		}
		var served atomic.Int32
		for _, c := range []class{course, inquiry} {
			wait.Go(func() {
				if release, err := q.acquire(t.Context(), "1", c); err == nil {
					served.Add(1)
					release()
				}
			})
		}
		synctest.Wait()
		if _, err := q.acquire(t.Context(), "1", request); err == nil ||
			err.Error() != "1024 requests are already waiting, which is the limit" {
			t.Errorf("one too many: %v", err)
		}
		if release, err := q.acquire(t.Context(), "2", request); err != nil {
			t.Errorf("for another job: %v", err)
		} else {
			release()
		}
		time.Sleep(requestWait + time.Second)
		synctest.Wait()
		if late.Load() != maxRequests || q.inLine("1") != 2 {
			t.Errorf("%d have given up, %d wait", late.Load(), q.inLine("1"))
		}
		first()
		wait.Wait()
		if served.Load() != 2 {
			t.Errorf("%d served", served.Load())
		}
	})
}

// A caller that has gone begins nothing, though the turn be free.
func TestQueueHasNoTurnForWhoIsGone(t *testing.T) {
	var q turns
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.acquire(ctx, "1", request); !errors.Is(err, context.Canceled) || len(q.waiting) != 0 {
		t.Errorf("%v, %d jobs in memory", err, len(q.waiting))
	}
}

// A user's attaches, however many, hold up neither the job's walltime nor its end, and root's
// attach comes before them.
func TestUsersRequestsWaitForTheJobsEnd(t *testing.T) {
	const id, many = "1.srv", 823
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("log = %q", filepath.Join(n.dir, "log")))
	h := n.open()
	n.stored(1, carried)
	release, err := h.turns.acquire(t.Context(), id, request) // the one that is under way
	if err != nil {
		t.Fatal(err)
	}
	var attaches, events sync.WaitGroup
	for range many {
		attaches.Go(func() {
			if _, err := h.HandleUser(t.Context(),
				requestOf(hostapi.EventAttach, id)); hostapi.KindOf(err) != hostapi.KindJob {
				t.Errorf("an attach behind the job's end: %v", err)
			}
		})
	}
	plugintest.Eventually(t, "attaches wait", func() bool { return h.turns.inLine(id) == many })
	h.callDue("a", []string{id})
	for i, e := range []hostapi.Event{hostapi.EventAttach, hostapi.EventPreterm, hostapi.EventEpilogue,
		hostapi.EventEnd} {
		plugintest.Eventually(t, "the one before waits", func() bool { return h.turns.inLine(id) == many+1+i })
		events.Go(func() {
			if _, err := h.Handle(t.Context(), requestOf(e, id)); (err != nil) != (e == hostapi.EventAttach) {
				t.Errorf("%s: %v", e, err)
			}
		})
	}
	plugintest.Eventually(t, "all wait", func() bool { return h.turns.inLine(id) == many+5 })
	release()
	events.Wait()
	attaches.Wait()
	want := []string{"exechost_periodic 1.srv 1", "execjob_preterm 1.srv 2", "execjob_epilogue 1.srv 3",
		"execjob_end 1.srv 4"}
	got := slices.DeleteFunc(n.calls("log"),
		func(call string) bool { return strings.HasPrefix(call, "exechost_startup") })
	if !slices.Equal(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
}

// A job whose turn its owner has all the time is dropped like any other.
func TestDroppedJobWithABusyTurn(t *testing.T) {
	n := newPBSNode(t, &momFiles{})
	h := n.open()
	n.put("1.srv", hostapi.PhaseRunning, 2*dropAge)
	release, err := h.turns.acquire(t.Context(), "1.srv", request)
	if err != nil {
		t.Fatal(err)
	}
	req := requestOf(hostapi.EventPeriodic, "")
	req.JobList = map[string]*hostapi.Job{}
	fromPBS(t, h, req)
	plugintest.Eventually(t, "its drop waits", func() bool { return h.turns.inLine("1.srv") > 0 })
	for range 100 {
		h.dropForgotten(h.ctx, "")
	}
	if n := h.turns.inLine("1.srv"); n != 1 {
		t.Errorf("%d drops of the job wait, want 1", n)
	}
	release()
	plugintest.Eventually(t, "it is dropped", func() bool { return n.record("1.srv") == nil })
}
