package sister

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
)

const (
	begin       = hostapi.EventBegin
	prologue    = hostapi.EventPrologue
	launch      = hostapi.EventLaunch
	postsuspend = hostapi.EventPostsuspend
	preresume   = hostapi.EventPreresume
	preterm     = hostapi.EventPreterm
	resize      = hostapi.EventResize
	abort       = hostapi.EventAbort
	epilogue    = hostapi.EventEpilogue
	end         = hostapi.EventEnd
)

// A begin that one host does not accept leaves nothing anywhere, at the latest when the others have
// asked.
func TestSpreadBegin(t *testing.T) {
	unreachable := func(host string, with fault, abortToo bool) func(string, hostapi.Event) fault {
		return func(h string, e hostapi.Event) fault {
			if h == host && (e == begin || e == abort && abortToo) {
				return with
			}
			return none
		}
	}
	for _, tt := range []struct {
		name    string
		rejects string // host that rejects
		fails   string // host whose hook crashes
		own     bool   // n1's own hooks reject
		fault   func(string, hostapi.Event) fault
		message string
		kind    hostapi.Kind
		action  hostapi.JobAction
		n3      string // events of n3
	}{
		{name: "all accept", n3: "begin"},
		{name: "own hooks reject", own: true, message: "'b': no"},
		{
			name:    "the second rejects",
			rejects: "n2",
			message: "n2: execjob_begin request rejected by 'b': no",
			action:  hostapi.JobActionRerun,
			n3:      "begin abort",
		},
		{
			name:    "the last rejects",
			rejects: "n4",
			message: "n4: execjob_begin request rejected by 'b': no",
			action:  hostapi.JobActionRerun,
			n3:      "begin abort",
		},
		{
			name:    "the second's hook fails",
			fails:   "n2",
			message: "n2: execjob_begin hook 'b'",
			action:  hostapi.JobActionHold,
			n3:      "begin abort",
		},
		{
			name:    "the second is down",
			fault:   unreachable("n2", down, true),
			message: "n2: connection refused",
			kind:    hostapi.KindNode,
			action:  hostapi.JobActionRerun,
			n3:      "begin abort",
		},
		{
			name:    "in doubt, never arrived",
			fault:   unreachable("n2", hung, false),
			message: "n2: no answer in time",
			kind:    hostapi.KindNode,
			action:  hostapi.JobActionRerun,
			n3:      "begin abort",
		},
		{
			name:    "in doubt, begun",
			fault:   unreachable("n2", lost, false),
			message: "n2: connection reset",
			kind:    hostapi.KindNode,
			action:  hostapi.JobActionRerun,
			n3:      "begin abort",
		},
		{
			name:    "in doubt, abort too",
			fault:   unreachable("n3", lost, true),
			message: "n3: connection reset",
			kind:    hostapi.KindNode,
			action:  hostapi.JobActionRerun,
			n3:      "begin abort",
		},
		{
			name:    "begun, abort never arrives",
			rejects: "n2",
			message: "n2: ",
			action:  hostapi.JobActionRerun,
			n3:      "begin abort", // when it asks
			fault: func(h string, e hostapi.Event) fault {
				if h == "n3" && e == abort {
					return down
				}
				return none
			},
		},
		{
			name:    "none answers",
			message: "n2: connection refused; n3: connection refused; n4: connection refused; and 2 more",
			kind:    hostapi.KindNode,
			action:  hostapi.JobActionRerun,
			fault:   func(string, hostapi.Event) fault { return down },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hosts := 4
			if tt.name == "none answers" {
				hosts = 6
			}
			c := newCluster(t, hosts, nil, func(name string, n *node) {
				switch {
				case tt.own && name == "n1":
					n.hook("b", "misbehave", "mode = 'reject'\nvalue = 'no'", 2)
				case name == tt.rejects:
					n.hook("b", "misbehave", "mode = 'rerun'\nvalue = 'no'", 2)
				case name == tt.fails:
					n.hook("b", "misbehave", "mode = 'error'\nvalue = 'internal'", 2)
				}
			})
			c.breaks(tt.fault)
			v := c.judge(begin, "1.srv")
			if v.Reject != (tt.message != "") || !strings.Contains(v.Message, tt.message) ||
				v.Kind != tt.kind || v.OnReject != tt.action || len(v.FailAction) > 0 {
				t.Errorf("verdict %+v, kind %q, %+v", v, v.Kind, v.Outcome)
			}
			c.ask()
			want := ""
			if tt.message == "" {
				want = "n1 n2 n3 n4"
			}
			if got := c.holds("1.srv"); got != want {
				t.Errorf("held by %q, want %q", got, want)
			}
			if got := c.events("n3", "1.srv"); got != tt.n3 {
				t.Errorf("n3 got %q, want %q", got, tt.n3)
			}
		})
	}
}

func TestSpreadRefused(t *testing.T) {
	c := newCluster(t, 2, nil, nil)
	alone := c.event(begin, "1.srv")
	alone.Job.ExecVnode = "(n1:ncpus=1)+(n1:ncpus=2)"
	v, err := c.head().Judge(t.Context(), alone)
	if err != nil || v.Reject || c.members["n1"].record("1.srv").Run != "" {
		t.Errorf("a job of one host: %+v, %v", v, err)
	}
	second := c.event(begin, "2.srv")
	second.Job.ExecVnode = "(n2:ncpus=1)+(n1:ncpus=1)"
	if _, err := c.head().Judge(t.Context(), second); err == nil || hostapi.KindOf(err) != hostapi.KindJob {
		t.Errorf("not its first host: %v", err)
	}
	badRun := c.event(begin, "2.srv")
	badRun.Run = "../run"
	if _, err := c.head().Judge(t.Context(), badRun); err == nil || hostapi.KindOf(err) != hostapi.KindJob {
		t.Errorf("no run: %v", err)
	}
	c.members["n1"].jobs.Others = nil
	_, err = c.head().Judge(t.Context(), c.event(begin, "2.srv"))
	if err == nil || hostapi.KindOf(err) != hostapi.KindNode ||
		!strings.Contains(err.Error(), "[sister] is not configured") {
		t.Errorf("nobody reaches others: %v", err)
	}
	c.members["n1"].jobs.Others = c
	pbsMoM := c.event(begin, "2.srv") // pbs_mom sends the events itself
	pbsMoM.Spread, pbsMoM.Run = false, thisRun
	for _, e := range []hostapi.Event{begin, prologue, launch, postsuspend, preresume, preterm, epilogue, end} {
		pbsMoM.Event = e
		if v, err := c.head().Judge(t.Context(), pbsMoM); err != nil || v.Reject {
			t.Errorf("%s: %+v, %v", e, v, err)
		}
	}
	if got := c.holds("2.srv"); got != "" || len(c.sent) > 0 {
		t.Errorf("held by %q, sent %q", got, c.sent)
	}
}

// Events after begin reach the other hosts in the same order.
func TestSpreadEvents(t *testing.T) {
	c := newCluster(t, 3, func(name string) string {
		return fmt.Sprintf("cput = %s\nmem = '10kb'\nsays = 'bye from %s'\n", name[1:], name)
	}, nil)
	c.must(begin, prologue, launch, postsuspend)
	for _, name := range []string{"n2", "n3"} {
		rec := c.members[name].record("1.srv")
		if rec.Head != "n1" || rec.Run != c.members["n1"].record("1.srv").Run || rec.MoM != nil {
			t.Errorf("record of %s: %+v", name, rec)
		}
	}
	c.must(preresume, preterm)
	v := c.judge(epilogue, "1.srv")
	used := v.ResourcesUsed
	if v.Reject || used["mem"] != "30kb" || used["walltime"] != "00:00:07" || *v.Usage.CPUTSeconds != 1 {
		t.Errorf("epilogue: %+v", v.Outcome)
	}
	const others, own = "n2: bye from n2|n3: bye from n3", "bye from n1"
	if got := strings.Join(v.JobStderr, "|"); got != others+"|"+own && got != own+"|"+others {
		t.Errorf("job's standard error: %q", got)
	}
	rec := c.members["n1"].record("1.srv")
	if *rec.Hosts["n3"].CPUTSeconds != 3 || rec.Diag["n2"] != "diag: bye from n2" || len(rec.Missing) > 0 ||
		!strings.Contains(strings.Join(rec.Notes, "|"), "n2: note: bye from n2") {
		t.Errorf("record %+v", rec)
	}
	c.must(end)
	if got := c.holds("1.srv"); got != "" {
		t.Errorf("held by %q", got)
	}
	for _, name := range c.names {
		want := "begin prologue postsuspend preresume preterm epilogue end"
		if got := c.events(name, "1.srv"); got != want {
			t.Errorf("%s got %q", name, got)
		}
		if n := len(c.members[name].reports()); n != 1 {
			t.Errorf("%s has %d reports", name, n)
		}
	}
}

// An event that a host rejects, in the middle of a job, is taken back on the others.
func TestSpreadUndone(t *testing.T) {
	rejects := func(e hostapi.Event) func(string, *node) {
		return func(name string, n *node) {
			if name == "n3" {
				n.hook("b", "misbehave", fmt.Sprintf("mode = 'reject'\nvalue = 'no'\nevent = %q", e), 2)
			}
		}
	}
	for _, e := range []hostapi.Event{preresume, preterm} {
		t.Run(string(e)+" of a suspended job", func(t *testing.T) {
			c := newCluster(t, 3, nil, rejects(e))
			c.must(begin, launch)
			for _, name := range []string{"n2", "n3"} { // something of the job runs there
				attach := event(hostapi.EventAttach, "1.srv")
				attach.PID = 4_000_002
				if v, err := c.members[name].host.Judge(t.Context(), attach); err != nil || v.Reject {
					t.Fatal(v, err)
				}
			}
			c.must(postsuspend)
			v := c.judge(e, "1.srv")
			if !v.Reject || v.Message != "n3: "+string(e)+" request rejected by 'b': no" {
				t.Errorf("%+v", v.Outcome)
			}
			for _, name := range c.names {
				want := "begin postsuspend " + strings.TrimPrefix(string(e), "execjob_") + " postsuspend"
				if got := c.events(name, "1.srv"); got != want { // n3's own host takes back what its first hook did
					t.Errorf("%s got %q, want %q", name, got, want)
				}
				if rec := c.members[name].record("1.srv"); rec.Phase != jobstate.PhaseSuspended {
					t.Errorf("the job is %s on %s", rec.Phase, name)
				}
			}
			c.breaks(func(host string, e hostapi.Event) fault {
				if host == "n2" && e == postsuspend {
					return down
				}
				return none
			})
			v = c.judge(e, "1.srv")
			if !strings.HasSuffix(v.Message, "; "+string(e)+" is not undone on n2: connection refused") {
				t.Errorf("n2 runs on: %q", v.Message)
			}
		})
	}
	t.Run("resize", func(t *testing.T) {
		c := newCluster(t, 3, nil, func(name string, n *node) {
			n.hook("a", "misbehave", "mode = 'attach-env'\nvalue = 'NCPUS'", 1)
			rejects(resize)(name, n)
		})
		c.must(begin, launch)
		r := c.event(resize, "1.srv")
		r.Job.ResourceList = hostapi.Resources{"ncpus": "4"}
		v, err := c.head().Judge(t.Context(), r)
		if err != nil || !v.Reject || v.Message != "n3: execjob_resize request rejected by 'b': no" {
			t.Fatalf("%+v, %v", v, err)
		}
		for name, want := range map[string]string{
			"n1": "begin resize=4 resize=2",
			"n2": "begin resize=4 resize=2",
			"n3": "begin resize=4",
		} {
			if got := c.events(name, "1.srv"); got != want {
				t.Errorf("%s got %q, want %q", name, got, want)
			}
		}
		for _, name := range c.names {
			if got := c.members[name].record("1.srv").Job.ResourceList["ncpus"]; got != "2" {
				t.Errorf("%s says ncpus=%s", name, got)
			}
			attach := event(hostapi.EventAttach, "1.srv")
			attach.PID = 4_000_002
			v, err := c.members[name].host.Judge(t.Context(), attach)
			if err != nil || v.SetEnv["NCPUS"] != "2" {
				t.Errorf("attach on %s: %+v, %v", name, v, err)
			}
		}
		r.Job.ExecVnode = "(n1:ncpus=1)+(n2:ncpus=1)"
		if _, err := c.head().Judge(t.Context(), r); hostapi.KindOf(err) != hostapi.KindJob {
			t.Errorf("a resize to other hosts: %v", err)
		}
	})
	t.Run("prologue", func(t *testing.T) {
		c := newCluster(t, 3, nil, rejects(prologue))
		c.must(begin)
		if v := c.judge(prologue, "1.srv"); !v.Reject {
			t.Errorf("%+v", v.Outcome)
		}
		c.must(abort, epilogue, end)
		if got := c.holds("1.srv"); got != "" {
			t.Errorf("held by %q", got)
		}
	})
	t.Run("preterm of a host that is down", func(t *testing.T) {
		c := newCluster(t, 3, nil, nil)
		c.must(begin, launch)
		c.breaks(func(host string, _ hostapi.Event) fault {
			if host == "n2" {
				return down
			}
			return none
		})
		v := c.judge(preterm, "1.srv")
		note := "n2 did not answer to execjob_preterm: connection refused"
		if v.Reject || len(v.Notes) != 1 || v.Notes[0] != note {
			t.Errorf("%+v", v.Outcome)
		}
		v = c.judge(postsuspend, "1.srv")
		got := c.events("n3", "1.srv")
		if !v.Reject || v.Message != "n2: connection refused" || got != "begin preterm postsuspend" {
			t.Errorf("%+v, n3 got %q", v.Outcome, got)
		}
	})
}

// Twenty jobs at once, all the way.
func TestSpreadManyJobs(t *testing.T) {
	c := newCluster(t, 5, func(name string) string { return "cput = 1.0\nmem = '10kb'\n" }, nil)
	var jobs sync.WaitGroup
	for i := range 20 {
		id := fmt.Sprintf("%d.srv", i+1)
		jobs.Go(func() {
			for _, e := range []hostapi.Event{begin, prologue, launch, postsuspend, preresume, epilogue, end} {
				v, err := c.head().Judge(t.Context(), c.event(e, id))
				if err != nil || v.Reject {
					t.Errorf("%s of job %s: %+v, %v", e, id, v, err)
					return
				}
				if e == epilogue && v.ResourcesUsed["mem"] != "50kb" {
					t.Errorf("job %s used %v", id, v.ResourcesUsed)
				}
				if e == launch {
					if err := c.head().Refresh(t.Context(), id); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	jobs.Wait()
	for i := range 20 {
		if got := c.holds(fmt.Sprintf("%d.srv", i+1)); got != "" {
			t.Errorf("job %d is held by %q", i+1, got)
		}
	}
	for _, name := range c.names {
		if n := len(c.members[name].reports()); n != 20 {
			t.Errorf("%s has %d reports", name, n)
		}
	}
}

// A job that a host left when it died is ended on the others as well, whatever it was in the middle
// of.
func TestReconcileEndsSisters(t *testing.T) {
	dead := hostapi.ProcessID{PID: 4_000_004, StartTime: 3}
	begun := time.Now()
	for _, tt := range []struct {
		name   string
		begun  bool // here
		others bool // there
		phase  jobstate.Phase
		down   bool
		want   string // n2's events
	}{
		{name: "before anybody was told", phase: jobstate.PhasePrerun},
		{name: "in the middle of begin", others: true, phase: jobstate.PhasePrerun, want: "begin abort"},
		{
			name:   "in the middle of begin, others down",
			others: true,
			phase:  jobstate.PhasePrerun,
			down:   true,
			want:   "begin",
		},
		{
			name:   "in the middle of the job",
			begun:  true,
			others: true,
			phase:  jobstate.PhaseRunning,
			want:   "begin epilogue end",
		},
		{
			name:   "in the middle of the job, others down",
			begun:  true,
			others: true,
			phase:  jobstate.PhaseRunning,
			down:   true,
			want:   "begin",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, 3, nil, nil)
			job := c.event(begin, "1.srv").Job
			rec := &jobstate.Record{Job: job, Host: dead, MoM: &dead, Phase: tt.phase, Run: thisRun}
			if tt.begun {
				rec.Begun, rec.Launched = begun, jobstate.Moment{Wall: begun}
			}
			c.members["n1"].change("1.srv", func(*jobstate.Record) *jobstate.Record { return rec })
			for _, name := range []string{"n2", "n3"} {
				if tt.others {
					v, err := c.members[name].host.Judge(t.Context(), from("n1", thisRun, begin, "1.srv"))
					if err != nil || v.Reject {
						t.Fatal(v, err)
					}
				}
			}
			if tt.down {
				c.breaks(func(string, hostapi.Event) fault { return down })
			}
			for range 2 {
				must.NoError(t, c.head().Reconcile(t.Context()))
			}
			if got := c.events("n2", "1.srv"); got != tt.want {
				t.Errorf("n2 got %q, want %q", got, tt.want)
			}
			c.ask()
			if got := c.holds("1.srv"); got != "" {
				t.Errorf("held by %q", got)
			}
		})
	}
}

// The other hosts end a job whose head does not know of it any more, and only that.
func TestAbandonEndsOnlyTheRunItNames(t *testing.T) {
	c := newCluster(t, 2, nil, nil)
	n2 := c.members["n2"]
	c.must(begin, prologue, launch)
	run := n2.record("1.srv").Run
	for _, stale := range []func() error{
		func() error { return n2.host.Abandon(t.Context(), "1.srv", otherRun, "why") },
		func() error { return n2.host.Abandon(t.Context(), "2.srv", run, "why") },
		func() error { return c.head().Abandon(t.Context(), "1.srv", run, "why") }, // its own
	} {
		if err := stale(); err != nil || c.holds("1.srv") != "n1 n2" {
			t.Errorf("%v, held by %q", err, c.holds("1.srv"))
		}
	}
	for range 2 {
		must.NoError(t, n2.host.Abandon(t.Context(), "1.srv", run, missedEnd))
	}
	if got := c.events("n2", "1.srv"); got != "begin prologue epilogue end" || c.holds("1.srv") != "n1" {
		t.Errorf("n2 got %q, held by %q", got, c.holds("1.srv"))
	}
	b, found, err := n2.ledger.Last(t.Context(), "1.srv")
	if err != nil || !found || !strings.Contains(string(b), "could not be reached") {
		t.Errorf("report %s, %v", b, err)
	}
	c.must(epilogue, end) // whose other host is gone
	if rec := c.members["n1"].record("1.srv"); rec != nil {
		t.Errorf("record %+v", rec)
	}
}

// A job that is begun again while it is there from before is ended everywhere first.
func TestSpreadBeginAgain(t *testing.T) {
	c := newCluster(t, 2, nil, nil)
	c.must(begin)
	first := c.members["n2"].record("1.srv").Run
	c.must(begin)
	n2 := c.members["n2"]
	if got := c.events("n2", "1.srv"); got != "begin abort begin" || n2.record("1.srv").Run == first {
		t.Errorf("n2 got %q", got)
	}
	_, err := n2.host.Handle(t.Context(), from("n1", first, end, "1.srv"))
	if err != nil || c.holds("1.srv") != "n1 n2" {
		t.Errorf("a late end of the first run: %v, held by %q", err, c.holds("1.srv"))
	}
}
