package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

// momFiles is what pbs_mom has of jobs, as a host is told.
type momFiles struct {
	mu     sync.Mutex
	jobs   map[string]bool
	homes  map[string]map[string]bool // the same by home, where there are several MoMs
	unread bool
}

func (m *momFiles) has(job *hostapi.Job, home string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unread {
		return false, errors.New("mom_priv/jobs: permission denied")
	}
	return m.jobs[job.ID] || m.homes[home][job.ID], nil
}

// newPBSNode is a node of pbs_mom with one hook that writes down its events.
func newPBSNode(t *testing.T, mom *momFiles) *node {
	n := newNode(t)
	n.options = func(o *Options) { o.PBSHas = mom.has }
	n.hook("a", "misbehave", fmt.Sprintf("log = %q", filepath.Join(n.dir, "log")), "order=1")
	return n
}

// put stores a record of a job of pbs_mom that was begun so long ago.
func (n *node) put(id string, phase hostapi.Phase, ago time.Duration, change ...func(*jobstate.Record)) {
	n.t.Helper()
	rec := &jobstate.Record{Job: requestOf(hostapi.EventBegin, id).Job, Phase: phase, Host: self, PBS: true,
		Begun: time.Now().Add(-ago)}
	if phase != hostapi.PhasePrerun {
		rec.Launched = jobstate.Moment{Wall: rec.Begun}
	}
	for _, f := range change {
		f(rec)
	}
	if err := n.store.Update(id, func(*jobstate.Record) (*jobstate.Record, error) { return rec, nil }); err != nil {
		n.t.Fatal(err)
	}
}

// events returns the events of a job that the hook got, without their prefix.
func (n *node) events(id string) string {
	var events []string
	for _, call := range n.calls("log") {
		if f := strings.Fields(call); f[1] == id {
			events = append(events, strings.TrimPrefix(f[0], "execjob_"))
		}
	}
	return strings.Join(events, " ")
}

func fromPBS(t *testing.T, h *Host, req *hostapi.Request) *hostapi.Outcome {
	t.Helper()
	v, err := h.HandlePBS(t.Context(), req, "", hostapi.ProcessID{})
	if err != nil {
		t.Fatalf("%s: %v", req.Event, err)
	}
	return v.Outcome
}

// A begin that nobody waits for any more is undone; MoM has taken it for a reject.
func TestBeginWithoutCaller(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadlineCause(t.Context(), time.Now().Add(-time.Second), errors.New("its alarm is 30s"))
	defer cancel()
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		direct bool // not from pbs_mom
		says   string
	}{
		{"gone", gone, false, "nobody waits for its answer any more: context canceled"},
		{"late", late, false, "nobody waits for its answer any more: its alarm is 30s"},
		{"there", t.Context(), false, ""},
		{"another MoM's, which asks again", gone, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newPBSNode(t, &momFiles{})
			h := n.open()
			handle := func(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
				v, err := h.HandlePBS(ctx, req, "", hostapi.ProcessID{})
				return outcomeOf(v), err
			}
			if tt.direct {
				handle = h.Handle
			}
			out, err := handle(tt.ctx, requestOf(hostapi.EventBegin, "1.srv"))
			if err != nil {
				t.Fatal(err)
			}
			events, rec := n.events("1.srv"), n.record("1.srv")
			if tt.says == "" {
				if out.Reject || events != "begin" || rec == nil || rec.PBS == tt.direct {
					t.Errorf("%+v, events %q, record %+v; want it begun", out, events, rec)
				}
				return
			}
			if !out.Reject || out.OnReject != hostapi.JobActionRerun || !strings.Contains(out.Message, tt.says) ||
				events != "begin abort" || rec != nil {
				t.Errorf("%+v, events %q, record %+v; want it undone", out, events, rec)
			}
		})
	}
}

// A preresume that nobody waits for any more is taken back: MoM has left the job suspended.
func TestPreresumeWithoutCaller(t *testing.T) {
	for _, there := range []bool{true, false} {
		n := newPBSNode(t, &momFiles{})
		h := n.open()
		for _, e := range []hostapi.Event{hostapi.EventBegin, hostapi.EventPrologue, hostapi.EventLaunch,
			hostapi.EventPostsuspend} {
			fromPBS(t, h, requestOf(e, "1.srv"))
		}
		if rec := n.record("1.srv"); !rec.Kept || rec.Phase != hostapi.PhaseSuspended {
			t.Fatalf("%+v", rec)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if !there {
			cancel()
		}
		out, err := h.HandlePBS(ctx, requestOf(hostapi.EventPreresume, "1.srv"), "", hostapi.ProcessID{})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		want, phase := "begin prologue launch postsuspend preresume", hostapi.PhaseRunning
		if !there {
			want, phase = want+" postsuspend", hostapi.PhaseSuspended
		}
		if rec := n.record("1.srv"); out.Reject == there || out.OnReject != hostapi.JobActionNone ||
			rec.Phase != phase || n.events("1.srv") != want {
			t.Errorf("%+v, events %q, phase %s", out, n.events("1.srv"), rec.Phase)
		}
	}
}

// When there is too little room, jobs that MoM has dropped since their begin make some.
func TestRoomOfDroppedJobs(t *testing.T) {
	for _, tt := range []struct {
		name   string
		phase  hostapi.Phase
		ago    time.Duration
		mom    *momFiles
		change func(*jobstate.Record)
		room   bool
	}{
		{name: "dropped", phase: hostapi.PhasePrerun, ago: time.Minute, room: true},
		{name: "MoM has it", phase: hostapi.PhasePrerun, ago: time.Minute,
			mom: &momFiles{jobs: map[string]bool{"1.srv": true}}},
		{name: "MoM's files cannot be read", phase: hostapi.PhasePrerun, ago: time.Minute,
			mom: &momFiles{unread: true}},
		{name: "just begun", phase: hostapi.PhasePrerun, ago: -time.Minute},
		{name: "being begun", phase: hostapi.PhasePrerun, change: func(r *jobstate.Record) { r.Begun = time.Time{} }},
		{name: "started, and MoM has deleted its files", phase: hostapi.PhaseRunning, ago: time.Minute, room: true},
		{name: "started, and MoM has it", phase: hostapi.PhaseRunning, ago: time.Minute,
			mom: &momFiles{jobs: map[string]bool{"1.srv": true}}},
		{name: "started just now", phase: hostapi.PhaseRunning, ago: 5 * time.Second},
		{name: "started by the MoM of another home", phase: hostapi.PhaseRunning, ago: time.Minute,
			change: func(r *jobstate.Record) { r.MoMHome = "/other" }},
		{name: "on a sister, and MoM has deleted its files", phase: hostapi.PhasePrerun, ago: time.Minute,
			change: func(r *jobstate.Record) { r.Kept = true }, room: true},
		{name: "at its prologue", phase: hostapi.PhasePrerun, ago: 5 * time.Second,
			change: func(r *jobstate.Record) { r.Kept = true }},
		{name: "of another MoM", phase: hostapi.PhasePrerun, ago: time.Minute,
			change: func(r *jobstate.Record) { r.PBS = false }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.mom == nil {
				tt.mom = &momFiles{}
			}
			n := newPBSNode(t, tt.mom)
			once := fmt.Sprintf("mode = 'error'\nvalue = 'busy'\nevent = 'execjob_begin'\nonce = %q",
				filepath.Join(n.dir, "once"))
			n.hook("b", "misbehave", once, "order=2")
			h := n.open()
			change := []func(*jobstate.Record){}
			if tt.change != nil {
				change = append(change, tt.change)
			}
			n.put("1.srv", tt.phase, tt.ago, change...)
			out := fromPBS(t, h, requestOf(hostapi.EventBegin, "2.srv"))
			first := n.record("1.srv")
			if !tt.room {
				if !out.Reject || out.OnReject != hostapi.JobActionRerun || first == nil || n.events("1.srv") != "" ||
					n.events("2.srv") != "begin abort" {
					t.Errorf("%+v, first %+v, events %q and %q; want the first left alone", out, first,
						n.events("1.srv"), n.events("2.srv"))
				}
				return
			}
			ended, reports := "abort", 0
			if tt.phase == hostapi.PhaseRunning {
				ended, reports = "epilogue end", 1
			}
			if out.Reject || first != nil || n.events("1.srv") != ended || n.events("2.srv") != "begin abort begin" ||
				len(n.reports()) != reports {
				t.Errorf("%+v, first %+v, events %q and %q; want the first dropped", out, first, n.events("1.srv"),
					n.events("2.srv"))
			}
		})
	}
}

// A hook that rejects the end of a dropped job keeps nothing of it, so there is room.
func TestRoomOfADroppedJobWhoseEndIsRejected(t *testing.T) {
	n := newPBSNode(t, &momFiles{})
	n.hook("b", "misbehave", "mode = 'reject'\nvalue = 'no'\nevent = 'execjob_end'", "order=2")
	h := n.open()
	n.put("1.srv", hostapi.PhaseRunning, time.Minute)
	if got := h.dropForRoom(t.Context(), "2.srv", caller{pbs: true}); got != 1 || n.record("1.srv") != nil {
		t.Errorf("%d dropped, record %+v", got, n.record("1.srv"))
	}
}

// A job that does not start is looked for 30 s after its begin, also by the host that has taken it
// over.
func TestJobsThatDoNotStart(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted=%v", restarted), func(t *testing.T) {
			mom := &momFiles{jobs: map[string]bool{"2.srv": true}}
			n := newPBSNode(t, mom)
			if restarted {
				dead := func(r *jobstate.Record) { r.Host = hostapi.ProcessID{PID: 4_000_004} }
				n.put("1.srv", hostapi.PhasePrerun, time.Minute, dead)
				n.put("2.srv", hostapi.PhasePrerun, time.Minute, dead)
				n.put("3.srv", hostapi.PhaseRunning, time.Minute, dead)
			}
			h := n.open()
			if err := h.Reconcile(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !restarted {
				for _, id := range []string{"1.srv", "2.srv", "3.srv"} {
					if out := fromPBS(t, h, requestOf(hostapi.EventBegin, id)); out.Reject {
						t.Fatal(out)
					}
				}
				fromPBS(t, h, requestOf(hostapi.EventLaunch, "3.srv"))
				h.unstarted.mu.Lock()
				waits, left := len(h.unstarted.byJob), time.Until(h.unstarted.byJob["1.srv"][""].at)
				h.unstarted.mu.Unlock()
				if waits != 2 || left > dropAge || left < dropAge-20*time.Second {
					t.Errorf("%d timers, the nearest in %v", waits, left)
				}
				for _, id := range []string{"1.srv", "2.srv", "3.srv"} {
					h.change(func(r *jobstate.Record) { r.Begun = r.Begun.Add(-dropAge) }, id)
				}
			}
			plugintest.Eventually(t, "the job is dropped", func() bool { return n.record("1.srv") == nil })
			plugintest.Eventually(t, "all timers have rung", func() bool {
				h.unstarted.mu.Lock()
				defer h.unstarted.mu.Unlock()
				return len(h.unstarted.byJob) == 0
			})
			if err := h.Close(t.Context()); err != nil { // waits for what they do
				t.Fatal(err)
			}
			if n.record("2.srv") == nil || n.record("3.srv") == nil || !strings.HasSuffix(n.events("1.srv"), "abort") ||
				strings.Contains(n.events("2.srv")+n.events("3.srv"), "abort") || len(n.reports()) > 0 {
				t.Errorf("2: %+v, 3: %+v, events %q, %q, %q", n.record("2.srv"), n.record("3.srv"), n.events("1.srv"),
					n.events("2.srv"), n.events("3.srv"))
			}
		})
	}
}

// A job that pbs_mom neither lists nor has on its disk is ended at its periodic, started or not.
func TestUnlistedJobs(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mom    *momFiles
		direct bool
		left   string
	}{
		{"of pbs_mom", &momFiles{jobs: map[string]bool{"4.srv": true}}, false, "1.srv 4.srv 5.srv 6.srv"},
		{"its files cannot be read", &momFiles{unread: true}, false, "1.srv 2.srv 3.srv 4.srv 5.srv 6.srv"},
		{"of another MoM", &momFiles{}, true, "1.srv 2.srv 3.srv 4.srv 5.srv 6.srv"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newPBSNode(t, tt.mom)
			h := n.open()
			n.put("1.srv", hostapi.PhaseRunning, time.Hour)     // listed
			n.put("2.srv", hostapi.PhaseRunning, time.Hour)     // nowhere
			n.put("3.srv", hostapi.PhasePrerun, time.Minute)    // nowhere
			n.put("4.srv", hostapi.PhaseRunning, time.Hour)     // on MoM's disk
			n.put("5.srv", hostapi.PhaseRunning, 5*time.Second) // young
			n.put("6.srv", hostapi.PhaseRunning, time.Hour, func(r *jobstate.Record) { r.PBS = false })
			req := requestOf(hostapi.EventPeriodic, "")
			req.JobList = map[string]*hostapi.Job{"1.srv": {ID: "1.srv"}}
			handle := func(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
				v, err := h.HandlePBS(ctx, req, "", hostapi.ProcessID{})
				return outcomeOf(v), err
			}
			if tt.direct {
				handle = h.Handle
			}
			if out, err := handle(t.Context(), req); err != nil || out.Reject {
				t.Fatal(out, err)
			}
			var left []string
			for _, rec := range n.store.List() {
				left = append(left, rec.Job.ID)
			}
			if got := strings.Join(left, " "); got != tt.left {
				t.Errorf("left are %s, want %s", got, tt.left)
			}
			if strings.Contains(tt.left, "2.srv") {
				return
			}
			if n.events("2.srv") != "epilogue end" || n.events("3.srv") != "abort" {
				t.Errorf("events %q and %q", n.events("2.srv"), n.events("3.srv"))
			}
			if text := n.reportOf("2.srv"); !strings.Contains(text, notListed) || len(n.reports()) != 1 {
				t.Errorf("report %s, of %v", text, n.reports())
			}
		})
	}
}

// A pbs_mom that was restarted has deleted its files of jobs that it does not know any more. No
// hook runs for that.
func TestJobsThatARestartedMoMHasForgottenEnd(t *testing.T) {
	n := newPBSNode(t, &momFiles{jobs: map[string]bool{"2.srv": true}})
	h := n.open()
	n.put("1.srv", hostapi.PhaseRunning, time.Hour)
	n.put("2.srv", hostapi.PhaseRunning, time.Hour) // on MoM's disk
	n.put("3.srv", hostapi.PhaseRunning, time.Hour, func(r *jobstate.Record) { r.MoMHome = "/other" })
	n.put("4.srv", hostapi.PhaseRunning, time.Second) // MoM may be about to write it
	ended := func(ago time.Duration) func(*jobstate.Record) {
		return func(r *jobstate.Record) { r.Ended = h.clock.Moment(time.Now().Add(-ago)) }
	}
	n.put("5.srv", hostapi.PhaseExiting, time.Hour, ended(time.Minute)) // MoM was killed before it sent the end
	n.put("6.srv", hostapi.PhaseExiting, time.Hour, ended(time.Second)) // the end may be on its way
	h.dropForgotten(h.ctx, "")
	for id, lives := range map[string]bool{"1.srv": false, "2.srv": true, "3.srv": true, "4.srv": true, "5.srv": false,
		"6.srv": true} {
		if rec := n.record(id); lives != (rec != nil) || lives != (n.events(id) == "") {
			t.Errorf("job %s lives: %t, events %q", id, rec != nil, n.events(id))
		}
	}
}

// An end that comes late, of a run before the one that lives here, ends nothing.
func TestEndOfAnEarlierRunLeavesTheJobThatHasBegunAgain(t *testing.T) {
	n := newPBSNode(t, &momFiles{})
	h := n.open()
	run := func(e hostapi.Event, count int) {
		t.Helper()
		req := requestOf(e, "1.srv")
		req.Job.RunCount = count
		if out := fromPBS(t, h, req); out.Reject {
			t.Errorf("%s of run %d: %s", e, count, out.Message)
		}
	}
	run(hostapi.EventBegin, 1)
	run(hostapi.EventLaunch, 1)
	run(hostapi.EventBegin, 2)
	for _, e := range []hostapi.Event{hostapi.EventEpilogue, hostapi.EventAbort, hostapi.EventEnd} {
		run(e, 1)
	}
	if rec := n.record("1.srv"); rec == nil || rec.Phase != hostapi.PhasePrerun || rec.Job.RunCount != 2 {
		t.Fatalf("record %+v, want the second run's", rec)
	}
	run(hostapi.EventEnd, 2)
	if rec := n.record("1.srv"); rec != nil || n.events("1.srv") != "begin launch epilogue end begin end" {
		t.Errorf("record %+v, events %q", rec, n.events("1.srv"))
	}
}

// An operator may lower run_count while the job runs; run_version says that it is the same run.
func TestEndOfAJobWhoseRunCountWasLoweredEndsIt(t *testing.T) {
	n := newPBSNode(t, &momFiles{})
	h := n.open()
	for _, step := range []struct {
		event hostapi.Event
		count int
	}{{hostapi.EventBegin, 2}, {hostapi.EventLaunch, 2}, {hostapi.EventEpilogue, 1}, {hostapi.EventEnd, 1}} {
		req := requestOf(step.event, "1.srv")
		req.Job.RunVersion, req.Job.RunCount = 2, step.count
		if out := fromPBS(t, h, req); out.Reject {
			t.Errorf("%s: %s", step.event, out.Message)
		}
	}
	if rec := n.record("1.srv"); rec != nil || n.events("1.srv") != "begin launch epilogue end" {
		t.Errorf("record %+v, events %q", rec, n.events("1.srv"))
	}
}

// Each of several MoMs of one host has its own jobs. A job that one of them does not list or have
// is another's.
func TestUnlistedJobsOfSeveralMoMs(t *testing.T) {
	n := newPBSNode(t, &momFiles{homes: map[string]map[string]bool{"/a": {"4.srv": true}, "": {"6.srv": true}}})
	h := n.open()
	var mom hostapi.ProcessID
	out, err := h.HandlePBS(t.Context(), requestOf(hostapi.EventBegin, "1.srv"), "/a", mom)
	if err != nil || out.Reject || n.record("1.srv").MoMHome != "/a" {
		t.Fatal(out, err, n.record("1.srv"))
	}
	of := func(home string) func(*jobstate.Record) { return func(r *jobstate.Record) { r.MoMHome = home } }
	n.put("2.srv", hostapi.PhaseRunning, time.Hour, of("/a")) // nowhere
	n.put("3.srv", hostapi.PhaseRunning, time.Hour, of("/b"))
	n.put("4.srv", hostapi.PhaseRunning, time.Hour, of("/a")) // on its MoM's disk
	// of an unknown home, and not in that which is configured
	n.put("5.srv", hostapi.PhaseRunning, time.Hour)
	n.put("6.srv", hostapi.PhaseRunning, time.Hour) // of an unknown home, but in that which is configured
	for _, tt := range []struct{ home, left string }{
		{"/c", "1.srv 2.srv 3.srv 4.srv 6.srv"},
		{"/a", "1.srv 3.srv 4.srv 6.srv"},
		{"", "1.srv 3.srv 4.srv 6.srv"},
		{"/b", "1.srv 4.srv 6.srv"},
	} {
		out, err := h.HandlePBS(t.Context(), requestOf(hostapi.EventPeriodic, ""), tt.home, mom)
		if err != nil || out.Reject {
			t.Fatal(out, err)
		}
		var left []string
		for _, rec := range n.store.List() {
			left = append(left, rec.Job.ID)
		}
		if got := strings.Join(left, " "); got != tt.left {
			t.Errorf("after the periodic of %q %s are left, want %s", tt.home, got, tt.left)
		}
	}
}

// MoM starts a job again at once whose begin another hook has rejected. The start before is none to
// report.
func TestBeginAgainAfterAnotherHooksReject(t *testing.T) {
	n := newPBSNode(t, &momFiles{})
	h := n.open()
	for run := range 3 {
		req := requestOf(hostapi.EventBegin, "1.srv")
		req.Job.RunCount = run + 1
		if out := fromPBS(t, h, req); out.Reject {
			t.Fatal(out)
		}
	}
	if got := n.events("1.srv"); got != "begin abort begin abort begin" || len(n.reports()) != 0 {
		t.Errorf("events %q, reports %v", got, n.reports())
	}
}

// Lines that a hook gives at an event to which MoM takes none come at epilogue.
func TestLinesAreKeptForEpilogue(t *testing.T) {
	for _, pbs := range []bool{true, false} {
		rec := &jobstate.Record{PBS: pbs, Job: &hostapi.Job{ID: "1.srv"}}
		addLines(rec, []string{"a warning"})
		out := &hostapi.Outcome{JobStderr: []string{"an end"}}
		addTold(out, rec, "n1")
		if got := strings.Join(out.JobStderr, "|"); got != "a warning|an end" && pbs || !pbs && got != "an end" {
			t.Errorf("pbs %v: %q", pbs, got)
		}
	}
}

// A job whose event takes long keeps MoM from nothing: what periodic found out about it is told,
// and noted when the event is over.
func TestPeriodicWaitsForNoJob(t *testing.T) {
	n := newPBSNode(t, &momFiles{})
	const used = `{"1.srv":{"usage":{"ncpus":1,"cput_seconds":3}},"2.srv":{"usage":{"ncpus":1,"cput_seconds":3}}}`
	n.hook("b", "misbehave", "mode = \"say\"\nevent = \"exechost_periodic\"\nvalue = '{\"jobs\":"+used+"}'", "order=2")
	h := n.open()
	for _, id := range []string{"1.srv", "2.srv"} {
		fromPBS(t, h, requestOf(hostapi.EventBegin, id))
		fromPBS(t, h, requestOf(hostapi.EventLaunch, id))
	}
	release, err := h.turns.acquire(t.Context(), "1.srv", course) // an event has it
	if err != nil {
		t.Fatal(err)
	}
	req := requestOf(hostapi.EventPeriodic, "")
	req.JobList = map[string]*hostapi.Job{"1.srv": {ID: "1.srv"}, "2.srv": {ID: "2.srv"}}
	out := fromPBS(t, h, req)
	for _, id := range []string{"1.srv", "2.srv"} {
		if u := out.Jobs[id]; u == nil || *u.Usage.CPUTSeconds != 3 {
			t.Errorf("job %s: %+v", id, u)
		}
	}
	noted := func(id string) bool { return n.record(id).Hosts["n1"] != nil }
	if noted("1.srv") || !noted("2.srv") {
		t.Errorf("noted: %v of the job without its turn, %v of the other", noted("1.srv"), noted("2.srv"))
	}
	release()
	plugintest.Eventually(t, "it is noted", func() bool { return noted("1.srv") })
}
