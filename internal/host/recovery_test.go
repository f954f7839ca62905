package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

// reportFound has a hook report jobs at its startup that the host does not list.
func reportFound(h *Host, jobs map[string]*hostapi.JobUpdate) {
	h.recoverJobs(&chain{answers: []answer{{out: &hostapi.Outcome{Jobs: jobs}}}})
}

func TestLostRecordIsMadeAnewFromTheBeginEvent(t *testing.T) {
	n := newNode(t)
	h := n.open()
	begin := func(id string) *hostapi.Request {
		req := requestOf(hostapi.EventBegin, id)
		req.PBS, req.MoMHome = true, "/var/spool/pbs"
		return req
	}
	must(t, h, hostapi.EventBegin, "4.srv")
	reportFound(h, map[string]*hostapi.JobUpdate{
		"1.srv": {Begin: begin("1.srv")}, "2.srv": {Begin: begin("2.srv"), Frozen: new(true)},
		"4.srv": {Begin: begin("4.srv")}, "5.srv": {}, "6.srv": {Begin: begin("7.srv")},
	})
	rec := n.record("1.srv")
	if rec == nil || rec.Phase != hostapi.PhaseRunning || rec.Host != self || !rec.Kept ||
		!rec.PBS || rec.MoMHome != "/var/spool/pbs" {
		t.Fatalf("record %+v", rec)
	}
	rec = n.record("2.srv")
	if rec.Phase != hostapi.PhaseSuspended || rec.SuspendedAt.IsZero() || rec.Elapsed(h.clock.Now()) > time.Second {
		t.Errorf("a frozen job: %+v", rec)
	}
	if rec := n.record("4.srv"); rec.Phase != hostapi.PhasePrerun || len(rec.Notes) > 0 {
		t.Errorf("a job that is known: %+v", rec)
	}
	if n.record("5.srv") != nil || n.record("6.srv") != nil {
		t.Error("a job without a begin event of its own has a record")
	}
	must(t, h, hostapi.EventLaunch, "1.srv")
	must(t, h, hostapi.EventEnd, "1.srv")
	if len(n.reports()) != 1 {
		t.Errorf("%d reports", len(n.reports()))
	}
	if v := judge(t, h, hostapi.EventLaunch, "5.srv"); !v.Reject || v.OnReject != hostapi.JobActionRerun {
		t.Errorf("a job that is nowhere: %+v", v.Outcome)
	}
}

// An end that comes first after the record was lost leaves none: it waits for the hooks that find
// jobs.
func TestEndOfAJobWhoseRecordIsJustMadeAnew(t *testing.T) {
	n := newNode(t)
	const found = `{"jobs":{"1.srv":{"begin":{"event":"execjob_begin","job":{"id":"1.srv","owner":` +
		`{"user":"root","uid":0,"gid":0}}}}}}`
	n.hook("a", "misbehave", fmt.Sprintf("mode = 'say'\nevent = 'exechost_startup'\nvalue = '%s'", found))
	h := n.open()
	must(t, h, hostapi.EventEnd, "1.srv")
	h.AwaitStart(t.Context())
	if n.record("1.srv") != nil || !strings.Contains(n.reportOf("1.srv"), lostRecord) {
		t.Errorf("record %+v, report %s; want the job settled", n.record("1.srv"), n.reportOf("1.srv"))
	}
}

// A task that is launched after the record was lost does not lead the job.
func TestTaskIsNotTakenForTheLeadingShell(t *testing.T) {
	n := newNode(t)
	h := n.open()
	reportFound(h, map[string]*hostapi.JobUpdate{"1.srv": {Begin: requestOf(hostapi.EventBegin, "1.srv")}})
	launch := requestOf(hostapi.EventLaunch, "1.srv")
	launch.PID, launch.Job.SessionID = 4_000_003, 4_000_002
	if v, err := h.Handle(t.Context(), launch); err != nil || v.Reject {
		t.Fatalf("launch: %+v, %v", v, err)
	}
	if got := n.record("1.srv").Job.SessionID; got != 4_000_002 {
		t.Errorf("session %d, want PBS's 4000002", got)
	}
	must(t, h, hostapi.EventEnd, "1.srv")
}

// The MoM of a job whose record was lost may have died with the daemon.
func TestJobWithoutRecordAndMoMIsEnded(t *testing.T) {
	n := newNode(t)
	h := n.open()
	begin := requestOf(hostapi.EventBegin, "1.srv")
	begin.MoM = &hostapi.ProcessID{PID: 4_000_001, StartTime: 1}
	reportFound(h, map[string]*hostapi.JobUpdate{"1.srv": {Begin: begin}})
	plugintest.Eventually(t, "the job is ended", func() bool {
		return n.record("1.srv") == nil && len(n.reports()) == 1
	})
}

// A crash may leave a job frozen that is not suspended, and the reverse.
func TestJobIsFrozenOrThawedAsItsRecordSays(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("log = %q", filepath.Join(n.dir, "log")))
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	must(t, h, hostapi.EventLaunch, "1.srv")
	called := func(frozen bool) string {
		t.Helper()
		before := len(n.calls("log"))
		h.alignJob("a", "1.srv", frozen)
		return strings.Join(n.calls("log")[before:], " ")
	}
	if got := called(false) + called(true); !strings.HasPrefix(got, "execjob_preresume 1.srv") {
		t.Errorf("a running job: %q", got)
	}
	must(t, h, hostapi.EventPostsuspend, "1.srv")
	since := n.record("1.srv").SuspendedAt
	if got := called(true) + called(false); !strings.HasPrefix(got, "execjob_postsuspend 1.srv") {
		t.Errorf("a suspended job: %q", got)
	}
	if rec := n.record("1.srv"); rec.Phase != hostapi.PhaseSuspended || rec.SuspendedAt != since {
		t.Errorf("record %+v, want suspended since %v", rec, since)
	}
	must(t, h, hostapi.EventEpilogue, "1.srv")
	if got := called(true) + called(false); got != "" {
		t.Errorf("a job that ends: %q", got)
	}
	must(t, h, hostapi.EventEnd, "1.srv")
}

// A host that dies over a postsuspend leaves a record that says so: the next one freezes the job.
func TestSuspensionIsOnRecordBeforeHooksAreCalled(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	log := filepath.Join(n.dir, "log")
	config := fmt.Sprintf("mode = %q\nevent = %q\nlog = %q", "wait", "execjob_postsuspend", log)
	n.hook("a", "misbehave", config, "alarm=10")
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	must(t, h, hostapi.EventLaunch, "1.srv")
	done := make(chan struct{})
	go func() { defer close(done); judge(t, h, hostapi.EventPostsuspend, "1.srv") }()
	plugintest.Eventually(t, "the record says so", func() bool {
		return n.record("1.srv").Phase == hostapi.PhaseSuspended
	})
	<-done
	must(t, h, hostapi.EventEnd, "1.srv")
	if text := n.reportOf("1.srv"); !strings.Contains(text, "suspended for ") {
		t.Errorf("report %s", text)
	}
}

// stuckRemover fails until it is freed.
type stuckRemover struct {
	remover
	stuck bool
}

func (r *stuckRemover) RemoveJob(ctx context.Context, id string) error {
	if r.stuck {
		return errors.New("a process in state D")
	}
	return r.remover.RemoveJob(ctx, id)
}

// A job of which something is left is not forgotten: its end is tried again until nothing is.
func TestEndIsTriedAgain(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nevent = %q\nvalue = %q", "error", "execjob_end", "node"))
	stuck := &stuckRemover{stuck: true}
	n.options = func(o *Options) { o.Fallback = stuck }
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	must(t, h, hostapi.EventLaunch, "1.srv")
	if v := judge(t, h, hostapi.EventEnd, "1.srv"); !v.Reject || !strings.Contains(v.Message, "state D") {
		t.Fatalf("end: %+v", v.Outcome)
	}
	for range 2 {
		if rec := n.record("1.srv"); rec == nil || rec.Timers[endTimer].At.IsZero() || len(n.reports()) != 0 {
			t.Fatalf("record %+v, %d reports; want it kept", rec, len(n.reports()))
		}
		if err := h.Reconcile(t.Context()); err == nil || strings.Count(err.Error(), "1.srv") != 1 {
			t.Errorf("reconcile: %v, want the job named once", err)
		}
	}
	stuck.stuck = false
	h.Reconcile(t.Context()) // the hook still fails
	if n.record("1.srv") != nil || len(n.reports()) != 1 {
		t.Errorf("record %+v, %d reports; want it settled", n.record("1.srv"), len(n.reports()))
	}
	if text := n.reportOf("1.srv"); !strings.Contains(text, endOnce) {
		t.Errorf("report %s", text)
	}
}

// Nor is one that was never begun but of which something is left; the next begin ends that first.
func TestUndoIsTriedAgain(t *testing.T) {
	n := newNode(t)
	once := filepath.Join(n.dir, "once")
	config := fmt.Sprintf("mode = %q\nonce = %q\nevent = %q\nvalue = %q", "error", once, "execjob_abort", "node")
	n.hook("a", "misbehave", config, "order=1")
	n.hook("b", "deny", "most = 1", "order=2")
	stuck := &stuckRemover{stuck: true}
	n.options = func(o *Options) { o.Fallback = stuck }
	h := n.open()
	req := requestOf(hostapi.EventBegin, "1.srv")
	req.Job.ResourceList = hostapi.Resources{"ncpus": "2"}
	if v, err := h.Handle(t.Context(), req); err != nil || !v.Reject || !strings.Contains(v.Message, "state D") {
		t.Fatal(v, err)
	}
	if rec := n.record("1.srv"); rec == nil || rec.Timers[endTimer].At.IsZero() {
		t.Fatalf("record %+v, want it kept", rec)
	}
	must(t, h, hostapi.EventBegin, "1.srv")
	rec := n.record("1.srv")
	if rec == nil || rec.Begun.IsZero() || rec.Phase != hostapi.PhasePrerun || len(n.reports()) != 0 {
		t.Errorf("record %+v, %d reports; want it begun anew", rec, len(n.reports()))
	}
}

// A job whose record cannot be written goes its way, and its report is whole.
func TestJobEndsWhileItsRecordCannotBeWritten(t *testing.T) {
	n := newNode(t)
	failures := make(chan error, 100)
	var err error
	if n.store, err = jobstate.Open(filepath.Join(n.dir, "jobs"), func(err error) { failures <- err }); err != nil {
		t.Fatal(err)
	}
	n.hook("a", "misbehave", "mode = \"used\"\nevent = \"execjob_epilogue\"\nvalue = \"mem=12kb\"")
	if err := os.Mkdir(filepath.Join(n.dir, "jobs", "1.srv.json.new"), 0o700); err != nil {
		t.Fatal(err)
	}
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	must(t, h, hostapi.EventLaunch, "1.srv")
	must(t, h, hostapi.EventEpilogue, "1.srv")
	req := requestOf(hostapi.EventEnd, "1.srv")
	req.Job.ExitStatus = new(3)
	if v, err := h.Handle(t.Context(), req); err != nil || v.Reject {
		t.Fatal(v, err)
	}
	text := n.reportOf("1.srv")
	if !strings.Contains(text, `"mem":"12kb"`) || !strings.Contains(text, `"exit_status":3`) {
		t.Errorf("report %s", text)
	}
	if n.record("1.srv") != nil || len(failures) != 1 {
		t.Errorf("record %+v, %d failures; want none and one", n.record("1.srv"), len(failures))
	}
}

// A hook that does not start may know of a frozen job that has lost its record. An answer that
// nobody heard would leave the job frozen for ever.
func TestPreresumeOfAnUnknownJobWaitsForTheHooksThatFindJobs(t *testing.T) {
	n := newNode(t)
	if v := judge(t, n.open(), hostapi.EventPreresume, "1.srv"); v.Reject {
		t.Errorf("no hook knows of a job: %+v", v.Outcome)
	}
	n = newNode(t)
	n.hook("a", "exit-at-start", "")
	v := judge(t, n.open(), hostapi.EventPreresume, "1.srv")
	if !v.Reject || !strings.Contains(v.Message, "the job may be frozen: ") || strings.Contains(v.Message, "\n") {
		t.Errorf("a hook does not start: %+v", v.Outcome)
	}
}
