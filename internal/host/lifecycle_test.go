package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

func TestLifeOfAJob(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nevent = %q\nlog = %q", "state", "execjob_launch",
		filepath.Join(n.dir, "log")))
	n.hook("b", "misbehave", fmt.Sprintf("mode = %q\nevent = %q\nvalue = %q", "used", "execjob_epilogue", "mem=12kb"))
	h := n.open()
	phase := func(want hostapi.Phase) *jobstate.Record {
		t.Helper()
		rec := n.record("1.srv")
		if rec == nil || rec.Phase != want || rec.Host != self {
			t.Fatalf("record %+v, want phase %s", rec, want)
		}
		return rec
	}
	req := requestOf(hostapi.EventBegin, "1.srv")
	req.Job.Owner = hostapi.Owner{User: "root", UID: -1, GID: -1}
	req.Job.Name = "sleep"
	if out, err := h.Handle(t.Context(), req); err != nil || out.Reject {
		t.Fatal(out, err)
	}
	if rec := phase(hostapi.PhasePrerun); rec.Job.Owner.UID != 0 || rec.Begun.IsZero() {
		t.Errorf("record %+v, want uid 0 looked up", rec)
	}
	must(t, h, hostapi.EventPrologue, "1.srv")
	phase(hostapi.PhasePrerun)
	must(t, h, hostapi.EventLaunch, "1.srv")
	must(t, h, hostapi.EventLaunch, "1.srv")
	if rec := phase(hostapi.PhaseRunning); string(rec.HookState["a"]) != `{"calls":2}` ||
		!slices.Equal(rec.Notes, []string{"1 calls", "2 calls"}) {
		t.Errorf("state %s, notes %v", rec.HookState["a"], rec.Notes)
	}
	must(t, h, hostapi.EventPostsuspend, "1.srv")
	phase(hostapi.PhaseSuspended)
	must(t, h, hostapi.EventPreresume, "1.srv")
	if rec := phase(hostapi.PhaseRunning); rec.Suspended <= 0 {
		t.Errorf("suspended %v", rec.Suspended)
	}
	must(t, h, hostapi.EventAttach, "1.srv")
	must(t, h, hostapi.EventPreterm, "1.srv")

	epilogue := requestOf(hostapi.EventEpilogue, "1.srv")
	epilogue.Job.ExitStatus = new(3)
	if out, err := h.Handle(t.Context(), epilogue); err != nil || out.ResourcesUsed["mem"] != "12kb" {
		t.Fatal(out, err)
	}
	if rec := phase(hostapi.PhaseExiting); *rec.ExitStatus != 3 || rec.ResourcesUsed["mem"] != "12kb" {
		t.Errorf("record %+v", rec)
	}
	v := judge(t, h, hostapi.EventLaunch, "1.srv")
	if !v.Reject || v.Kind != hostapi.KindJob || v.OnReject != hostapi.JobActionNone {
		t.Errorf("a task of an ending job: %+v", v)
	}
	must(t, h, hostapi.EventEnd, "1.srv")
	must(t, h, hostapi.EventEnd, "1.srv") // twice is nothing new
	if rec := n.record("1.srv"); rec != nil {
		t.Errorf("record after end: %+v", rec)
	}
	if got := n.reports(); !slices.Equal(got, []string{"1.srv"}) {
		t.Errorf("reports of %v", got)
	}
	text := n.reportOf("1.srv")
	if !strings.Contains(text, `"exit_status":3`) || !strings.Contains(text, "2 calls") ||
		!strings.Contains(text, `"name":"sleep"`) {
		t.Errorf("report %s", text)
	}
	if removed := n.removed.list(); len(removed) > 0 {
		t.Errorf("the host removed %v although the hooks did", removed)
	}
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	n := newNode(t)
	h := n.open()
	nobody := requestOf(hostapi.EventBegin, "1.srv")
	nobody.Job.Owner = hostapi.Owner{User: "no-such-user", UID: -1, GID: -1}
	anonymous := requestOf(hostapi.EventBegin, "1.srv")
	anonymous.Job.Owner = hostapi.Owner{UID: -1, GID: -1}
	for name, req := range map[string]*hostapi.Request{
		"unknown event":    {Event: "execjob_party"},
		"no job":           {Event: hostapi.EventBegin},
		"path as a job":    requestOf(hostapi.EventBegin, "../../etc"),
		"unknown user":     nobody,
		"no user":          anonymous,
		"attach of pid 1":  {Event: hostapi.EventAttach, PID: 1, Job: &hostapi.Job{ID: "1"}},
		"attach to no job": requestOf(hostapi.EventAttach, "99.srv"),
	} {
		if _, err := h.Handle(t.Context(), req); hostapi.KindOf(err) != hostapi.KindJob {
			t.Errorf("%s: %v, want a job error", name, err)
		}
	}
}

func TestEventsOfUnknownJobs(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("log = %q", filepath.Join(n.dir, "log")))
	h := n.open()
	for _, e := range []hostapi.Event{hostapi.EventPreterm, hostapi.EventPostsuspend, hostapi.EventPreresume,
		hostapi.EventEpilogue, hostapi.EventEnd, hostapi.EventAbort} {
		must(t, h, e, "1.srv")
	}
	for _, e := range []hostapi.Event{hostapi.EventPrologue, hostapi.EventLaunch} {
		if v := judge(t, h, e, "1.srv"); !v.Reject || v.OnReject != hostapi.JobActionRerun {
			t.Errorf("%s: %+v, want it back in the queue", e, v.Outcome)
		}
	}
	want := "exechost_startup - 1 execjob_epilogue 1.srv 1 execjob_end 1.srv 2 execjob_abort 1.srv 3"
	if got := strings.Join(n.calls("log"), " "); got != want {
		t.Errorf("calls: %s\nwant:  %s", got, want)
	}
	if n.record("1.srv") != nil || len(n.reports()) > 0 {
		t.Error("an unknown job has a record or a report")
	}
}

// A begin that a later hook rejects leaves nothing of the earlier ones.
func TestBeginIsUndone(t *testing.T) {
	n := newNode(t)
	log := filepath.Join(n.dir, "log")
	n.hook("a", "misbehave", fmt.Sprintf("log = %q", log), "order=1")
	n.hook("b", "deny", "most = 1", "order=2")
	h := n.open()
	req := requestOf(hostapi.EventBegin, "1.srv")
	req.Job.ResourceList = hostapi.Resources{"ncpus": "2"}
	v, err := h.Handle(t.Context(), req)
	if err != nil || v.Message != "execjob_begin request rejected by 'b': ncpus=2: at most 1 on this host" {
		t.Fatal(v, err)
	}
	want := "exechost_startup - 1 execjob_begin 1.srv 1 execjob_abort 1.srv 2"
	if got := strings.Join(n.calls("log"), " "); got != want {
		t.Errorf("calls: %s\nwant:  %s", got, want)
	}
	if n.record("1.srv") != nil || len(n.reports()) > 0 {
		t.Error("a rejected job has a record or a report")
	}
	// PBS begins the same job again and again.
	req.Job.ResourceList["ncpus"] = "1"
	if v, err := h.Handle(t.Context(), req); err != nil || v.Reject {
		t.Fatal(v, err)
	}
	if got := must(t, h, hostapi.EventAbort, "1.srv"); got.Reject || n.record("1.srv") != nil || len(n.reports()) > 0 {
		t.Error("an aborted start has a record or a report")
	}
}

// When the hook that cleans up is down, the host does it.
func TestHostCleansUpWhereTheHookIsDown(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nevent = %q", "exit", "execjob_end"))
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	must(t, h, hostapi.EventEpilogue, "1.srv")
	if v := judge(t, h, hostapi.EventEnd, "1.srv"); v.Kind != hostapi.KindInternal {
		t.Errorf("end: %+v", v)
	}
	if got := n.removed.list(); !slices.Equal(got, []string{"1.srv"}) {
		t.Errorf("removed %v", got)
	}
	if n.record("1.srv") != nil || len(n.reports()) != 1 {
		t.Error("the job is not settled")
	}
}

// The job's owner reads that no hook cleaned up only if a hook of hookhost has failed.
func TestNoteAboutAFailedEndNamesTheHook(t *testing.T) {
	const fails = "mode = \"error\"\nevent = \"execjob_end\"\nvalue = \"internal\""
	const removed = "hookhost removed what the job left, because no hook did"
	for _, tt := range []struct{ name, site, builtIn, note string }{
		{"site", fails, "", "hook 'x' failed at execjob_end"},
		{"built in", "", fails, removed},
		{"both", fails, fails, removed},
	} {
		n := newNode(t)
		n.hook("x", "misbehave", tt.site)
		n.builtIn("cgroup", tt.builtIn)
		h := n.open()
		must(t, h, hostapi.EventBegin, "1.srv")
		must(t, h, hostapi.EventEpilogue, "1.srv")
		judge(t, h, hostapi.EventEnd, "1.srv")
		text := n.reportOf("1.srv")
		if !strings.Contains(text, tt.note) || strings.Contains(text, removed) != (tt.note == removed) ||
			strings.Contains(n.log.String(), "no hook has cleaned up") != (tt.note == removed) {
			t.Errorf("%s: report %s, log %s", tt.name, text, n.log.String())
		}
	}
}

// When no built-in hook is left, the host cleans up after the jobs that hooks confined, and no
// others. A site's hook that handles the end does not change that.
func TestHostCleansUpWhereNoHookIsLeft(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("log = %q", filepath.Join(n.dir, "log")))
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	must(t, h, hostapi.EventBegin, "2.srv")
	h.change(func(rec *jobstate.Record) {
		fold(rec, h.opt.Node, &hostapi.JobUpdate{Usage: &hostapi.HostUsage{}})
	}, "1.srv")
	for _, id := range []string{"1.srv", "2.srv"} {
		must(t, h, hostapi.EventEpilogue, id)
		must(t, h, hostapi.EventEnd, id)
	}
	if got := n.removed.list(); !slices.Equal(got, []string{"1.srv"}) || len(n.reports()) != 2 {
		t.Errorf("removed %v, reports %v", got, n.reports())
	}
	if got := n.events("1.srv"); got != "begin epilogue end" {
		t.Errorf("the site's hook got %q", got)
	}
}

func TestBeginAgain(t *testing.T) {
	mom := hostapi.ProcessID{PID: 4_000_003, StartTime: 2}
	other := hostapi.ProcessID{PID: 4_000_004, StartTime: 3}
	tests := []struct {
		name    string
		record  jobstate.Record
		mom     *hostapi.ProcessID
		run     int
		busy    string // in the error; "": begun
		reports int
	}{
		{name: "replay before the job runs", record: jobstate.Record{Phase: hostapi.PhasePrerun}},
		{name: "runs", record: jobstate.Record{Phase: hostapi.PhaseRunning}, busy: "runs here already: running since"},
		{name: "suspended", record: jobstate.Record{Phase: hostapi.PhaseSuspended},
			busy: "runs here already: suspended since"},
		{name: "runs, but PBS has counted on", record: jobstate.Record{Phase: hostapi.PhaseRunning}, run: 1,
			reports: 1},
		{name: "was never ended", record: jobstate.Record{Phase: hostapi.PhaseExiting}, reports: 1},
		{name: "another living MoM's", record: jobstate.Record{Phase: hostapi.PhaseRunning, Runner: &mom},
			busy: "runs here already"},
		{name: "a dead MoM's", record: jobstate.Record{Phase: hostapi.PhaseRunning, Runner: &other}, reports: 1},
		{name: "the same MoM's replay", record: jobstate.Record{Phase: hostapi.PhasePrerun, Runner: &mom}, mom: &mom},
		{name: "pbs_mom's, the daemon died, runs", record: jobstate.Record{Phase: hostapi.PhaseRunning, Host: other},
			busy: "runs here already"},
		{name: "pbs_mom's, never launched, PBS has counted on",
			record: jobstate.Record{Phase: hostapi.PhaseRunning, PBS: true}, run: 1},
		{name: "pbs_mom's, the daemon died, PBS has counted on",
			record: jobstate.Record{Phase: hostapi.PhaseRunning, Host: other}, run: 1, reports: 1},
		{name: "a dead MoM's and a dead host's",
			record: jobstate.Record{Phase: hostapi.PhaseRunning, Runner: &other, Host: other}, reports: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.procs.add(mom)
			h := n.open()
			tt.record.Job = requestOf(hostapi.EventBegin, "1.srv").Job
			tt.record.Begun = time.Now()
			if tt.record.Host.PID == 0 {
				tt.record.Host = self
			}
			err := n.store.Update("1.srv", func(*jobstate.Record) (*jobstate.Record, error) { return &tt.record, nil })
			if err != nil {
				t.Fatal(err)
			}
			req := requestOf(hostapi.EventBegin, "1.srv")
			req.MoM, req.Job.RunCount = tt.mom, tt.run
			v, err := h.Handle(t.Context(), req)
			if tt.busy != "" {
				if hostapi.KindOf(err) != hostapi.KindBusy || !strings.Contains(err.Error(), tt.busy) {
					t.Errorf("error %v, want busy, %q", err, tt.busy)
				}
				return
			}
			if err != nil || v.Reject {
				t.Fatal(v, err)
			}
			if rec := n.record("1.srv"); rec.Phase != hostapi.PhasePrerun || rec.Host != self ||
				rec.Job.RunCount != tt.run {
				t.Errorf("record %+v", rec)
			}
			if got := n.reports(); len(got) != tt.reports {
				t.Errorf("%d reports, want %d", len(got), tt.reports)
			}
		})
	}
}

// Events of one job wait for each other, those of others do not.
func TestSerialPerJob(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nonce = %q\nlog = %q\nevent = %q", "wait",
		filepath.Join(n.dir, "once"), filepath.Join(n.dir, "log"), "execjob_launch"), "alarm=10")
	h := n.open()
	for _, id := range []string{"1.srv", "2.srv"} {
		must(t, h, hostapi.EventBegin, id)
	}
	var wg sync.WaitGroup
	wg.Go(func() { judge(t, h, hostapi.EventLaunch, "1.srv") }) // holds its turn for the whole alarm
	plugintest.Eventually(t, "job 1 is being launched",
		func() bool { _, err := os.Stat(filepath.Join(n.dir, "once")); return err == nil })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := h.Handle(ctx, requestOf(hostapi.EventAttach, "1.srv")); hostapi.KindOf(err) != hostapi.KindBusy {
		t.Errorf("second event of the job: %v, want it to wait in vain", err)
	}
	began := time.Now()
	must(t, h, hostapi.EventAttach, "2.srv")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("another job's event took %v", took)
	}
	wg.Wait()
	must(t, h, hostapi.EventAttach, "1.srv")
	if len(h.turns.waiting) != 0 {
		t.Errorf("%d jobs left in memory", len(h.turns.waiting))
	}
}

func TestConflictingHooks(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", "mode = \"env\"\nevent = \"execjob_launch\"\nvalue = \"X=1\"")
	n.hook("b", "misbehave", "mode = \"env\"\nevent = \"execjob_launch\"\nvalue = \"X=2\"")
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	v := judge(t, h, hostapi.EventLaunch, "1.srv")
	if !v.Reject || !strings.Contains(v.Message, "hooks a and b both set environment variable X to different values") {
		t.Errorf("%+v", v.Outcome)
	}
}

// A site's hook that contradicts hook cgroup fails, although it was called first, and hook cgroup
// does not: its fail_action would take the node offline.
func TestSiteHookThatContradictsAHookOfHookhostFails(t *testing.T) {
	n := newNode(t)
	const used = "mode = \"used\"\nevent = \"execjob_begin\"\nvalue = "
	n.hook("x", "misbehave", used+`"mem=5kb"`)
	n.builtIn("cgroup", used+`"mem=12kb"`, plugin.FailOfflineVnodes)
	v := judge(t, n.open(), hostapi.EventBegin, "1.srv")
	if !v.Reject || v.Hook != "x" || v.Kind != hostapi.KindNode || len(v.FailAction) > 0 ||
		!strings.Contains(v.Message, "hook 'x' sets resources_used.mem to another value than hook 'cgroup'") {
		t.Errorf("%+v: %+v", v, v.Outcome)
	}
}

// A task that MoM launches in a suspended job would freeze, and MoM with it. It fails, and the job
// goes on. An attached process freezes alone.
func TestNoTaskStartsInASuspendedJob(t *testing.T) {
	n := newPBSNode(t, &momFiles{jobs: map[string]bool{"1.srv": true}})
	h := n.open()
	do := func(events ...hostapi.Event) {
		t.Helper()
		for _, e := range events {
			if out := fromPBS(t, h, requestOf(e, "1.srv")); out.Reject {
				t.Errorf("%s: %s", e, out.Message)
			}
		}
	}
	do(hostapi.EventBegin, hostapi.EventLaunch, hostapi.EventPostsuspend)
	out := fromPBS(t, h, requestOf(hostapi.EventLaunch, "1.srv"))
	if !out.Reject || out.OnReject != hostapi.JobActionNone || !strings.HasSuffix(out.Message, "the job is suspended") {
		t.Errorf("a task of a suspended job: %+v", out)
	}
	do(hostapi.EventAttach, hostapi.EventPreresume, hostapi.EventLaunch)
	const want = "begin launch postsuspend attach preresume launch"
	if got := n.events("1.srv"); got != want {
		t.Errorf("events %q, want %q", got, want)
	}
}

// PBS has suspended a job whatever a hook says of it, so it counts as suspended. A resume that a
// hook refuses does not take place.
func TestSuspendThatAHookRejects(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", `mode = "reject"`+"\n"+`event = "execjob_postsuspend"`)
	n.hook("b", "misbehave", `mode = "reject"`+"\n"+`event = "execjob_preresume"`)
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	must(t, h, hostapi.EventLaunch, "1.srv")
	for _, e := range []hostapi.Event{hostapi.EventPostsuspend, hostapi.EventPreresume} {
		if v := judge(t, h, e, "1.srv"); !v.Reject {
			t.Errorf("%s: %+v, want the hook's reject", e, v.Outcome)
		}
		if rec := n.record("1.srv"); rec.Phase != hostapi.PhaseSuspended || rec.SuspendedAt.IsZero() {
			t.Errorf("after %s: %s since %v", e, rec.Phase, rec.SuspendedAt)
		}
	}
	must(t, h, hostapi.EventEnd, "1.srv")
}

// A resume, or an end, that a later hook refuses a suspended job is taken back in the hooks before
// it. The answers of those are recorded.
func TestResumeIsUndone(t *testing.T) {
	for _, e := range []hostapi.Event{hostapi.EventPreresume, hostapi.EventPreterm} {
		t.Run(string(e), func(t *testing.T) { resumeIsUndone(t, e) })
	}
}

func resumeIsUndone(t *testing.T, e hostapi.Event) {
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nevent = %q\nlog = %q", "state", "execjob_postsuspend",
		filepath.Join(n.dir, "log")), "order=1")
	n.hook("b", "misbehave", fmt.Sprintf("mode = %q\nevent = %q", "reject", e), "order=2")
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	must(t, h, hostapi.EventLaunch, "1.srv")
	must(t, h, hostapi.EventPostsuspend, "1.srv")
	since, before := n.record("1.srv").SuspendedAt, len(n.calls("log"))
	if v := judge(t, h, e, "1.srv"); !v.Reject || v.Hook != "b" {
		t.Errorf("%+v, want b's reject", v)
	}
	var events []string
	for _, line := range n.calls("log")[before:] {
		events = append(events, strings.Fields(line)[0])
	}
	if want := []string{string(e), "execjob_postsuspend"}; !slices.Equal(events, want) {
		t.Errorf("the first hook got %v, want %v", events, want)
	}
	rec := n.record("1.srv")
	if rec.Phase != hostapi.PhaseSuspended || rec.SuspendedAt.Sub(since) != 0 ||
		string(rec.HookState["a"]) != `{"calls":2}` {
		t.Errorf("%s since %v, want suspended since %v; state %s, want 2 calls", rec.Phase, rec.SuspendedAt, since,
			rec.HookState["a"])
	}
	must(t, h, hostapi.EventEnd, "1.srv")
}
