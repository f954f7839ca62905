package host

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

func TestReconcileEndsJobsWithoutAMoM(t *testing.T) {
	alive := hostapi.ProcessID{PID: 4_000_003, StartTime: 2}
	dead := hostapi.ProcessID{PID: 4_000_004, StartTime: 3}
	begun := time.Now()
	type rec = jobstate.Record
	tests := []struct {
		name   string
		record rec
		host   int    // the record's host afterwards; 0: no record is left
		note   string // in the report; "": there is none
		events string
	}{
		{name: "pbs_mom's, daemon died", record: rec{Host: dead, Begun: begun, Phase: hostapi.PhaseRunning},
			host: self.PID},
		{name: "host and runner died",
			record: rec{Host: dead, Runner: &dead, Begun: begun, Phase: hostapi.PhaseRunning},
			note:   runnerDied, events: "epilogue end"},
		{name: "runner lives, host died",
			record: rec{Host: dead, Runner: &alive, Begun: begun, Phase: hostapi.PhaseRunning}, host: self.PID},
		{name: "ours", record: rec{Host: self, Begun: begun}, host: self.PID},
		{name: "ours, runner died", record: rec{Host: self, Runner: &dead, Begun: begun}, note: runnerDied,
			events: "epilogue end"},
		{name: "died over begin", record: rec{Host: dead, Phase: hostapi.PhasePrerun}, events: "abort"},
		{name: "died over end", record: rec{Host: dead, Begun: begun, Phase: hostapi.PhaseExiting,
			Timers: map[string]jobstate.Timer{endTimer: {At: jobstate.Moment{Wall: begun}}}},
			note: endAgain, events: "epilogue end"},
		{name: "died between epilogue and end", record: rec{Host: dead, Begun: begun, Phase: hostapi.PhaseExiting},
			host: self.PID},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.procs.add(alive)
			n.hook("a", "misbehave", fmt.Sprintf("log = %q", filepath.Join(n.dir, "log")))
			tt.record.Job = requestOf(hostapi.EventBegin, "1.srv").Job
			err := n.store.Update("1.srv", func(*rec) (*rec, error) { return &tt.record, nil })
			if err != nil {
				t.Fatal(err)
			}
			h := n.open()
			for range 2 { // the second time there is nothing left to do
				if err := h.Reconcile(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			host := 0
			if r := n.record("1.srv"); r != nil {
				host = r.Host.PID
			}
			if host != tt.host {
				t.Errorf("host of the record %d, want %d", host, tt.host)
			}
			text := n.reportOf("1.srv")
			if (text != "") != (tt.note != "") || !strings.Contains(text, tt.note) || len(n.reports()) > 1 {
				t.Errorf("report %s; want the note %q", text, tt.note)
			}
			var events []string
			for _, call := range n.calls("log") {
				if e, ok := strings.CutPrefix(strings.Fields(call)[0], "execjob_"); ok {
					events = append(events, e)
				}
			}
			if got := strings.Join(events, " "); got != tt.events {
				t.Errorf("events %q, want %q", got, tt.events)
			}
		})
	}
}

// The death of the process that answers for a job ends it at once.
func TestMoMDies(t *testing.T) {
	n := newNode(t)
	mom := hostapi.ProcessID{PID: 4_000_003, StartTime: 2}
	n.procs.add(mom)
	n.hook("a", "misbehave", "")
	h := n.open()
	req := requestOf(hostapi.EventBegin, "1.srv")
	req.MoM = &mom
	if v, err := h.Handle(t.Context(), req); err != nil || v.Reject {
		t.Fatal(v, err)
	}
	n.procs.kill(mom)
	plugintest.Eventually(t, "the job has ended", func() bool { return n.record("1.srv") == nil })
	if text := n.reportOf("1.srv"); !strings.Contains(text, runnerDied) {
		t.Errorf("report %s", text)
	}
	// A job that ended before its MoM is watched no longer.
	n.procs.add(mom)
	req = requestOf(hostapi.EventBegin, "2.srv")
	req.MoM = &mom
	if v, err := h.Handle(t.Context(), req); err != nil || v.Reject {
		t.Fatal(v, err)
	}
	must(t, h, hostapi.EventEnd, "2.srv")
	h.runners.mu.Lock()
	watched := len(h.runners.byJob)
	h.runners.mu.Unlock()
	if watched != 0 {
		t.Errorf("%d MoMs watched", watched)
	}
}

// A begin that waited until its MoM had died calls no hook and leaves no report.
func TestBeginOfAMoMThatDiedIsRefused(t *testing.T) {
	n := newNode(t)
	log := filepath.Join(n.dir, "log")
	n.hook("a", "misbehave", fmt.Sprintf("log = %q", log))
	h := n.open()
	req := requestOf(hostapi.EventBegin, "1.srv")
	req.MoM = &hostapi.ProcessID{PID: 4_000_004, StartTime: 3}
	if v, err := h.Handle(t.Context(), req); hostapi.KindOf(err) != hostapi.KindBusy {
		t.Errorf("%+v, %v", v, err)
	}
	if called, _ := os.ReadFile(log); len(called) > 0 || n.record("1.srv") != nil || len(n.reports()) > 0 {
		t.Errorf("hooks %q, record %+v, reports %v", called, n.record("1.srv"), n.reports())
	}
}

// After a restart of the hook it learns which jobs live, all of them.
func TestStartupKnowsTheJobs(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", "", "debug=true")
	other := hostapi.ProcessID{PID: 4_000_003, StartTime: 2}
	n.procs.add(other)
	for id, host := range map[string]hostapi.ProcessID{"1.srv": self, "2.srv": other} {
		rec := &jobstate.Record{Job: requestOf(hostapi.EventBegin, id).Job, Host: host, Begun: time.Now(),
			HookState: map[string]json.RawMessage{"a": json.RawMessage(`{"x":1}`)}}
		if err := n.store.Update(id, func(*jobstate.Record) (*jobstate.Record, error) { return rec, nil }); err != nil {
			t.Fatal(err)
		}
	}
	h := n.open()
	must(t, h, hostapi.EventBegin, "3.srv")
	entry := n.log.Find("hook called")
	if entry == nil {
		t.Fatal("the hook was not called")
	}
	request := fmt.Sprint(entry["request"])
	for _, want := range []string{`"event":"exechost_startup"`, `"1.srv":{"id":"1.srv"`, `"2.srv":{"id":"2.srv"`,
		`"hook_state":{"x":1}`} {
		if !strings.Contains(request, want) {
			t.Errorf("request %s, want %s in it", request, want)
		}
	}
}

func TestCallAgain(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nvalue = %q\nlog = %q", "again", "1h", filepath.Join(n.dir, "log")))
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	rec := n.record("1.srv")
	if left := time.Until(rec.Timers["a"].At.Wall); left < 59*time.Minute || left > time.Hour {
		t.Fatalf("timers %v", rec.Timers)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The time comes while no host is there; the next one is another process.
	err := n.store.Update("1.srv", func(r *jobstate.Record) (*jobstate.Record, error) {
		r.Timers["a"] = jobstate.Timer{At: jobstate.Moment{Wall: time.Now().Add(-time.Minute)}}
		r.Host = hostapi.ProcessID{PID: 4_000_004}
		return r, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h = n.open()
	if err := h.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	called := func() bool {
		return slices.Contains(n.calls("log"), "exechost_periodic - 1") ||
			slices.Contains(n.calls("log"), "exechost_periodic 1.srv 1")
	}
	plugintest.Eventually(t, "the hook was called again", called)
	plugintest.Eventually(t, "the timer is gone", func() bool { return len(n.record("1.srv").Timers) == 0 })
	must(t, h, hostapi.EventEnd, "1.srv")
}

func TestPeriodicIsCalledByFreq(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	log := filepath.Join(n.dir, "log")
	n.hook("a", "misbehave", fmt.Sprintf("log = %q", log), "freq=1")
	n.hook("b", "deny", "", "freq=1") // handles none
	h := n.open()
	plugintest.Eventually(t, "two periodics", func() bool {
		return strings.Count(strings.Join(n.calls("log"), "\n"), "exechost_periodic") >= 2
	})
	h.periodics.mu.Lock()
	timers := len(h.periodics.next)
	h.periodics.mu.Unlock()
	if timers != 1 {
		t.Errorf("%d timers, want one", timers)
	}
	if v := judge(t, h, hostapi.EventPeriodic, ""); v.Reject {
		t.Errorf("%+v", v)
	}
}

// A job that does not end delays no periodic.
func TestPeriodicDoesNotWaitForAJobThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("log = %q", filepath.Join(n.dir, "log")), "freq=1")
	n.put("1.srv", hostapi.PhaseExiting, time.Minute, func(rec *jobstate.Record) {
		rec.Timers = map[string]jobstate.Timer{endTimer: {At: jobstate.Moment{Wall: time.Now()}}}
	})
	h := n.open()
	release, err := h.turns.acquire(t.Context(), "1.srv", course) // an event that takes long
	if err != nil {
		t.Fatal(err)
	}
	plugintest.Eventually(t, "three periodics", func() bool {
		return strings.Count(strings.Join(n.calls("log"), "\n"), "exechost_periodic") >= 3
	})
	release()
	plugintest.Eventually(t, "the job has ended", func() bool { return n.record("1.srv") == nil })
}

func TestReloadReplacesChangedHooksAlone(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.hook("keep", "misbehave", "", "order=5")
	n.hook("gone", "misbehave", "", "order=6")
	n.hook("changed", "misbehave", "", "order=7")
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	pids := map[string]int{}
	for _, name := range []string{"keep", "gone", "changed"} {
		pids[name] = hookPID(t, h, name)
	}
	if err := n.registry.Set("keep", "order=9", "alarm=7"); err != nil {
		t.Fatal(err)
	}
	if err := n.registry.Set("gone", "enabled=false"); err != nil {
		t.Fatal(err)
	}
	n.hook("changed", "misbehave", "mode = \"reject\"\nevent = \"execjob_launch\"\nvalue = \"new\"", "order=7")
	n.hook("more", "misbehave", "", "order=8")
	if err := h.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := judge(t, h, hostapi.EventLaunch, "1.srv"); v.Hook != "changed" {
		t.Errorf("launch: %+v, want the new configuration to reject it", v)
	}
	list, err := h.Hooks()
	if err != nil {
		t.Fatal(err)
	}
	states := ""
	for _, s := range list {
		states += s.Name + " " + s.State + ","
		if (s.PID == pids[s.Name]) != (s.Name == "keep") && s.State == "running" {
			t.Errorf("hook %s: pid %d, was %d", s.Name, s.PID, pids[s.Name])
		}
	}
	plugintest.Eventually(t, "the old programs are gone", func() bool {
		return !runs(fmt.Sprintf("/proc/%d", pids["gone"])) && !runs(fmt.Sprintf("/proc/%d", pids["changed"]))
	})
	plugintest.Eventually(t, "the new program runs", func() bool { return hookPID(t, h, "more") != 0 })
	if !strings.HasPrefix(states, "gone disabled,changed running,more ") ||
		!strings.HasSuffix(states, "keep running,") {
		t.Errorf("hooks: %s", states)
	}
	if h.plugins.Find("keep").Hook().Alarm != 7 {
		t.Error("the new alarm is not in force")
	}
}
