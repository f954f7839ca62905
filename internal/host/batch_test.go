package host

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

// Jobs that are due together are one call, and a slow call holds up nobody.
func TestBatchesTakeWhatComesDueTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		var calls []string
		b := &batches{start: func(f func()) { go f() }, call: func(hook string, jobs []string) {
			mu.Lock()
			calls = append(calls, fmt.Sprintf("%s(%s)@%v", hook, strings.Join(jobs, ","), time.Since(start)))
			mu.Unlock()
			time.Sleep(time.Minute)
		}}
		for _, job := range []string{"3", "2", "4", "2"} {
			b.add("a", job)
		}
		time.Sleep(time.Second)
		b.add("a", "5")
		time.Sleep(time.Second)
		b.add("b", "5")
		time.Sleep(time.Hour)
		synctest.Wait()
		if want := []string{"a(2,3,4)@1ms", "a(5)@1.001s", "b(5)@2.001s"}; !slices.Equal(calls, want) {
			t.Errorf("calls %q\nwant  %q", calls, want)
		}
		if len(b.due) > 0 {
			t.Errorf("left: %v", b.due)
		}
	})
}

// carried has a job of stored be this host's.
func carried(rec *jobstate.Record) { rec.Host = self }

// stored puts jobs that run into the store, as a host left them that is not there any more. at sets
// the timer of hook a.
func (n *node) stored(count int, at func(rec *jobstate.Record)) (ids []string) {
	n.t.Helper()
	for i := range count {
		id, now := fmt.Sprintf("%d.srv", i+1), time.Now()
		rec := &jobstate.Record{
			Job: requestOf(hostapi.EventBegin, id).Job, Phase: hostapi.PhaseRunning,
			Host: hostapi.ProcessID{PID: 4_000_004}, Begun: now, Launched: jobstate.Moment{Wall: now},
			Timers: map[string]jobstate.Timer{"a": {At: jobstate.Moment{Wall: now}}},
		}
		if at != nil {
			at(rec)
		}
		err := n.store.Update(id, func(*jobstate.Record) (*jobstate.Record, error) { return rec, nil })
		if err != nil {
			n.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// periodics returns the periodics about some jobs that hook a got. The hook has debug=true.
func (n *node) periodics() (reqs []hostapi.Request) {
	for line := range strings.Lines(n.log.String()) {
		var entry struct{ Hook, Request string }
		var req hostapi.Request
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Hook == "a" &&
			json.Unmarshal([]byte(entry.Request), &req) == nil && req.Partial {
			reqs = append(reqs, req)
		}
	}
	return reqs
}

// All jobs that are due are one call, but for one that an event is at: that is called for when the
// event is over.
func TestBatchWithABusyJob(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", "", "debug=true")
	h := n.open()
	ids := n.stored(20, carried)
	release, err := h.turns.acquire(t.Context(), "7.srv", course)
	if err != nil {
		t.Fatal(err)
	}
	h.callDue("a", ids)
	h.callDue("a", []string{"7.srv"}) // it waits already
	reqs := n.periodics()
	if len(reqs) != 1 || len(reqs[0].JobList) != 19 || reqs[0].JobList["7.srv"] != nil || reqs[0].Job != nil {
		t.Fatalf("%d calls %+v, want one for 19 jobs", len(reqs), reqs)
	}
	if rec := n.record("7.srv"); len(rec.Timers) != 1 {
		t.Errorf("timers %v of the job that nobody was called for", rec.Timers)
	}
	release()
	plugintest.Eventually(t, "the timer of the busy job is gone",
		func() bool { return len(n.record("7.srv").Timers) == 0 })
	if reqs := n.periodics(); len(reqs) != 2 || len(reqs[1].JobList) != 1 || reqs[1].JobList["7.srv"] == nil {
		t.Errorf("%d calls, want a second for the job", len(reqs))
	}
	for _, id := range ids {
		if rec := n.record(id); len(rec.Timers) != 0 {
			t.Errorf("job %s: timers %v", id, rec.Timers)
		}
	}
	// Nothing is due any more.
	h.callDue("a", ids)
	if reqs := n.periodics(); len(reqs) != 2 {
		t.Errorf("%d calls, want no third", len(reqs))
	}
}

// An error is logged once for all jobs, and all are called for again later, each by the clock that
// it was asked for.
func TestFailedBatch(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", "mode = \"error\"\nevent = \"exechost_periodic\"\nvalue = \"node\"")
	h := n.open()
	ids := n.stored(5, func(rec *jobstate.Record) {
		carried(rec)
		rec.Launched = h.clock.Now().Add(-time.Minute)
		if rec.Job.ID == "1.srv" {
			rec.Timers["a"] = jobstate.Timer{Elapsed: time.Second}
		}
	})
	h.callDue("a", ids)
	if said := strings.Count(n.log.String(), `"level":"error"`); said != 1 {
		t.Errorf("the error was logged %d times", said)
	}
	h.timers.mu.Lock()
	defer h.timers.mu.Unlock()
	for _, id := range ids {
		a := h.timers.byJob[id]["a"]
		if a == nil {
			t.Fatalf("job %s: no timer", id)
		}
		timer := n.record(id).Timers["a"]
		if left := time.Until(a.at); left <= 0 || left > retryCall || timer.Elapsed > 0 != (id == "1.srv") {
			t.Errorf("job %s: %v left of %+v", id, left, timer)
		}
	}
}

// A host that is closed amid calls waits for them, and makes no more.
func TestCloseAmidCalls(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("log = %q", filepath.Join(n.dir, "log")))
	h := n.open()
	ids := n.stored(50, carried)
	release, err := h.turns.acquire(t.Context(), "7.srv", course)
	if err != nil {
		t.Fatal(err)
	}
	add := func(ids []string) {
		for _, id := range ids {
			h.batches.add("a", id)
		}
	}
	add(ids)
	add(ids[:9])
	plugintest.Eventually(t, "the hook is called", func() bool { return len(n.calls("log")) > 0 })
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	release()
	add(ids)
	if slices.ContainsFunc(n.calls("log"), func(l string) bool { return strings.Contains(l, " 7.srv ") }) {
		t.Error("the hook was called for the job whose turn did not come")
	}
	if rec := n.record("7.srv"); len(rec.Timers) != 1 {
		t.Errorf("its timers: %v, want the one that the next host finds", rec.Timers)
	}
}

// A timer by the job's clock is due when the job has run so long, whatever has stood in between.
func TestCallAtElapsed(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", "mode = \"elapsed\"\nvalue = \"1h\"", "debug=true")
	h := n.open()
	alarmOf := func(id string) time.Time {
		t.Helper()
		h.timers.mu.Lock()
		defer h.timers.mu.Unlock()
		if timer := n.record(id).Timers["a"]; timer.Elapsed != time.Hour {
			t.Fatalf("timer %+v", timer)
		}
		if a := h.timers.byJob[id]["a"]; a != nil {
			return a.at
		}
		return time.Time{} // it stands still
	}
	must(t, h, hostapi.EventBegin, "1.srv")
	if at := alarmOf("1.srv"); !at.IsZero() {
		t.Errorf("before launch it runs until %v", at)
	}
	must(t, h, hostapi.EventLaunch, "1.srv")
	rec := n.record("1.srv")
	first := alarmOf("1.srv")
	if want := h.clock.Time(rec.Launched).Add(time.Hour); !first.Equal(want) {
		t.Errorf("runs until %v, want %v", first, want)
	}
	if rec.WalltimeLimit == nil || *rec.WalltimeLimit != time.Hour {
		t.Errorf("limit %v", rec.WalltimeLimit)
	}
	must(t, h, hostapi.EventPostsuspend, "1.srv")
	if at := alarmOf("1.srv"); !at.IsZero() {
		t.Errorf("it runs until %v while the job is suspended", at)
	}
	must(t, h, hostapi.EventPreresume, "1.srv")
	rec = n.record("1.srv")
	if at := alarmOf("1.srv"); rec.Suspended <= 0 || !at.Equal(first.Add(rec.Suspended)) {
		t.Errorf("after a suspension of %v it runs until %v, was %v", rec.Suspended, at, first)
	}
	must(t, h, hostapi.EventEnd, "1.srv")
	if timers := h.timers.byJob["1.srv"]; len(timers) > 0 {
		t.Errorf("timers %v for a job that is over", timers)
	}
	n.hook("a", "misbehave", "mode = \"elapsed\"\nvalue = \"100ms\"", "debug=true")
	if err := h.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(t, h, hostapi.EventBegin, "2.srv")
	must(t, h, hostapi.EventLaunch, "2.srv")
	plugintest.Eventually(t, "the hook is called", func() bool { return len(n.periodics()) > 0 })
	if j := n.periodics()[0].JobList["2.srv"]; j == nil || j.Elapsed < 100*time.Millisecond {
		t.Errorf("called for %+v", j)
	}
	plugintest.Eventually(t, "the timer is gone", func() bool { return len(n.record("2.srv").Timers) == 0 })
}

// A host that takes a job over finds out what is left by the clock that nobody sets. After a reboot
// the wall clock decides.
func TestTimersAfterARestart(t *testing.T) {
	const hour = time.Hour
	for _, tt := range []struct {
		name string
		boot string
		wall time.Duration // of launch, before now
		mono time.Duration // likewise
		when jobstate.Timer
		left time.Duration // 0: due
	}{
		{"overdue", "test", 2 * hour, 2 * hour, jobstate.Timer{Elapsed: hour}, 0},
		{"not due yet", "test", hour, hour, jobstate.Timer{Elapsed: 3 * hour}, 2 * hour},
		{"clock set forward by a day", "test", 25 * hour, hour, jobstate.Timer{Elapsed: 3 * hour}, 2 * hour},
		{"clock set back by a day", "test", -23 * hour, 4 * hour, jobstate.Timer{Elapsed: 3 * hour}, 0},
		{"another boot", "other", 2 * hour, 100 * hour, jobstate.Timer{Elapsed: 3 * hour}, hour},
		{"another boot, overdue", "other", 4 * hour, 0, jobstate.Timer{Elapsed: 3 * hour}, 0},
		{"at a moment", "test", 25 * hour, hour, jobstate.Timer{At: jobstate.Moment{Boot: "test", Mono: 2 * hour}},
			hour},
		{"at a moment, overdue", "test", -23 * hour, hour,
			jobstate.Timer{At: jobstate.Moment{Boot: "test", Mono: hour / 2}}, 0},
		{"at a moment of another boot", "other", 25 * hour, 0,
			jobstate.Timer{At: jobstate.Moment{Boot: "other", Mono: hour}}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.hook("a", "misbehave", "", "debug=true")
			clock, err := jobstate.NewClock("test")
			if err != nil {
				t.Fatal(err)
			}
			now := clock.Now()
			launched := jobstate.Moment{Wall: now.Wall.Add(-tt.wall), Boot: tt.boot, Mono: now.Mono - tt.mono}
			n.stored(1, func(rec *jobstate.Record) {
				rec.Launched = launched
				if !tt.when.At.IsZero() || tt.when.At.Boot != "" {
					tt.when.At = launched.Add(tt.when.At.Mono) // after the launch
				}
				rec.Timers["a"] = tt.when
			})
			h := n.open()
			if err := h.Reconcile(t.Context()); err != nil {
				t.Fatal(err)
			}
			if tt.left == 0 {
				plugintest.Eventually(t, "the timer is gone", func() bool { return len(n.record("1.srv").Timers) == 0 })
				if reqs := n.periodics(); len(reqs) != 1 || reqs[0].JobList["1.srv"] == nil {
					t.Errorf("called %d times", len(reqs))
				}
				return
			}
			h.timers.mu.Lock()
			defer h.timers.mu.Unlock()
			left := h.clock.Moment(h.timers.byJob["1.srv"]["a"].at).Sub(now)
			if off := left - tt.left; off.Abs() > time.Second { // the clocks are not read at once
				t.Errorf("rings %v after the start, want %v", left, tt.left)
			}
		})
	}
}

// A time that comes while the hook is disabled is not lost: the hook is called when it is back.
func TestTimerOfADisabledHook(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", "", "debug=true")
	h := n.open()
	if err := n.registry.Set("a", "enabled=false"); err != nil {
		t.Fatal(err)
	}
	if err := h.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	ids := n.stored(3, nil)
	if err := h.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	plugintest.Eventually(t, "the timers have rung", func() bool {
		h.timers.mu.Lock()
		defer h.timers.mu.Unlock()
		return len(h.timers.byJob) == 0
	})
	if err := n.registry.Set("a", "enabled=true"); err != nil {
		t.Fatal(err)
	}
	if err := h.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		plugintest.Eventually(t, "the timer of job "+id+" is gone",
			func() bool { return len(n.record(id).Timers) == 0 })
	}
}
