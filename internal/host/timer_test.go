package host

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

func TestTimersRingOnceAtTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var rung []string
		start := time.Now()
		c := newTimers(func(hook, job string) {
			mu.Lock()
			defer mu.Unlock()
			rung = append(rung, fmt.Sprintf("%s(%s)@%v", hook, job, time.Since(start)))
		})
		set := func(job string, hooks ...any) { // name, time from the start
			timers := map[string]alarm{}
			for i := 0; i < len(hooks); i += 2 {
				timers[hooks[i].(string)] = alarm{at: start.Add(hooks[i+1].(time.Duration))}
			}
			c.replace(job, timers)
		}
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if slices.Sort(rung); !slices.Equal(rung, want) {
				t.Errorf("rung: %q, want %q", rung, want)
			}
			rung = nil
		}
		set("1", "a", 3*time.Second)
		set("2", "a", time.Second, "b", time.Second)
		set("3", "a", 2*time.Second)
		set("3", "a", 9*time.Second) // put off
		set("4", "a", 2*time.Second)
		c.drop("4")
		set("5", "a", -time.Hour) // due while the host was away
		set("6", "a", time.Second, "b", 2*time.Second)
		set("6", "a", time.Second) // b asks for none any more
		set("7", "a", time.Second)
		set("7") // stands still
		expect("a(5)@0s")
		time.Sleep(time.Second)
		expect("a(2)@1s", "a(6)@1s", "b(2)@1s")
		time.Sleep(2 * time.Second)
		expect("a(1)@3s")
		time.Sleep(6 * time.Second)
		expect("a(3)@9s")
		set("7", "a", 10*time.Second) // goes on
		time.Sleep(time.Hour)
		expect("a(7)@10s")
		if len(c.byJob) > 0 {
			t.Errorf("%d jobs are left", len(c.byJob))
		}
		set("1", "a", 2*time.Hour)
		c.stop()
		set("2", "b", time.Second)
		time.Sleep(3 * time.Hour)
		expect()
	})
}

// The timer of a job that runs, stops and goes on, by the clock of the host.
func TestDueOverSuspensions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, err := jobstate.NewClock("b")
		if err != nil {
			t.Fatal(err)
		}
		rec := &jobstate.Record{Phase: hostapi.PhaseRunning}
		timer := jobstate.Timer{Elapsed: 3 * time.Second}
		due := func(want time.Duration) {
			t.Helper()
			at, runs := rec.Due(timer, clock.Now())
			if left := time.Until(clock.Time(at)); !runs || left != want {
				t.Errorf("due in %v, %v; want %v", left, runs, want)
			}
		}
		still := func() {
			t.Helper()
			if at, runs := rec.Due(timer, clock.Now()); runs {
				t.Errorf("due at %v, want it to stand still", at)
			}
		}
		still()
		time.Sleep(time.Hour)
		rec.Launched = clock.Now()
		due(3 * time.Second)
		time.Sleep(time.Second)
		due(2 * time.Second)
		rec.Phase, rec.SuspendedAt = hostapi.PhaseSuspended, clock.Now()
		still()
		time.Sleep(5 * time.Second)
		still()
		resume(rec, clock.Now())
		due(2 * time.Second)
		time.Sleep(2 * time.Second)
		due(0)
		if e := rec.Elapsed(clock.Now()); e != 3*time.Second {
			t.Errorf("elapsed %v, want 3s", e)
		}
		rec.Ended = clock.Now()
		still()
	})
}

// A hook that asks, at its call, for a time that has come does not keep the host busy.
func TestTimerThatHasCome(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", "mode = \"elapsed\"\nevent = \"exechost_periodic\"\nvalue = \"-10m\"", "debug=true")
	h := n.open()
	n.stored(1, func(rec *jobstate.Record) {
		carried(rec)
		rec.Launched, rec.Timers["a"] = h.clock.Now().Add(-time.Hour), jobstate.Timer{Elapsed: 59 * time.Minute}
	})
	h.callDue("a", []string{"1.srv"})
	if calls := n.periodics(); len(calls) != 1 {
		t.Errorf("called %d times", len(calls))
	}
	h.timers.mu.Lock()
	defer h.timers.mu.Unlock()
	if a := h.timers.byJob["1.srv"]["a"]; a == nil || time.Until(a.at) > retryCall ||
		n.record("1.srv").Timers["a"].Elapsed < time.Hour {
		t.Errorf("the next call: %+v", a)
	}
}
