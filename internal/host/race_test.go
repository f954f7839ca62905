package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// Who calls and hangs up harms nobody: neither the hook's program nor other jobs' events.
func TestCallerHangsUp(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	log := filepath.Join(n.dir, "log")
	n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nevent = %q\nlog = %q", "wait", "exechost_periodic", log), "alarm=2")
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	pid := hookPID(t, h, "a")
	called := func() bool { return strings.Contains(strings.Join(n.calls("log"), "\n"), "exechost_periodic") }

	// The chain itself, without what Refresh does against it.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := h.plugin("a").call(ctx, &hostapi.Request{Event: hostapi.EventPeriodic, Node: "n1"})
		done <- err
	}()
	eventually(t, "the hook is called", called)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || hostapi.KindOf(err) != hostapi.KindBusy {
		t.Errorf("call: %v, want it given up", err)
	}
	if now := hookPID(t, h, "a"); now != pid {
		t.Errorf("pid %d, was %d: the program was killed", now, pid)
	}
	if p := h.plugin("a"); len(p.breaker.crashes) != 0 {
		t.Errorf("%d crashes counted", len(p.breaker.crashes))
	}
	must(t, h, hostapi.EventLaunch, "1.srv")

	// Refresh goes on until the alarm, whoever asked.
	ctx, cancel = context.WithCancel(t.Context())
	before := len(n.calls("log"))
	go func() { done <- h.Refresh(ctx, "1.srv") }()
	eventually(t, "the hook is called", func() bool { return len(n.calls("log")) > before })
	cancel()
	select {
	case err := <-done:
		if errors.Is(err, context.Canceled) {
			t.Errorf("refresh: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("refresh does not end")
	}
}

// A hook whose configuration changes while an earlier one is at the event gets the event, with its new program.
func TestReloadInTheMiddleOfAnEvent(t *testing.T) {
	for _, e := range []hostapi.Event{hostapi.EventBegin, hostapi.EventLaunch, hostapi.EventEnd} {
		t.Run(string(e), func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			old, fresh := filepath.Join(n.dir, "old"), filepath.Join(n.dir, "fresh")
			n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nevent = %q\nlog = %q", "wait", e, filepath.Join(n.dir, "first")), "order=1", "alarm=2")
			n.hook("b", "misbehave", fmt.Sprintf("log = %q", old), "order=2")
			n.hook("c", "misbehave", fmt.Sprintf("log = %q", filepath.Join(n.dir, "gone")), "order=3")
			if e != hostapi.EventEnd {
				// begin and launch stop at a reject: the first hook has to accept, after a while.
				n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nonce = %q\nevent = %q\nlog = %q", "kill", filepath.Join(n.dir, "once"), e, filepath.Join(n.dir, "first")), "order=1")
			}
			h := n.open()
			if e != hostapi.EventBegin {
				must(t, h, hostapi.EventBegin, "1.srv")
			}
			eventually(t, "all run", func() bool { return hookPID(t, h, "a") != 0 && hookPID(t, h, "b") != 0 && hookPID(t, h, "c") != 0 })
			stopped := 0
			if e != hostapi.EventEnd {
				stopped = stop(t, h, "a")
			}
			var wg sync.WaitGroup
			began := make(chan struct{})
			wg.Go(func() { close(began); judge(t, h, e, "1.srv") })
			<-began
			if e == hostapi.EventEnd {
				eventually(t, "the first hook is at it", func() bool { return slices.Contains(n.calls("first"), "execjob_end 1.srv 2") })
			} else {
				eventually(t, "the event is begun", func() bool { h.jobs.mu.Lock(); defer h.jobs.mu.Unlock(); return len(h.jobs.waiting) == 1 })
			}
			n.hook("b", "misbehave", fmt.Sprintf("log = %q", fresh), "order=2")
			if err := n.registry.Set("c", "enabled=false"); err != nil {
				t.Fatal(err)
			}
			if err := h.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			if stopped != 0 {
				signalContinue(t, stopped)
			}
			wg.Wait()
			if got := n.calls("fresh"); !slices.Contains(got, string(e)+" 1.srv 1") {
				t.Errorf("calls of the new program: %v, want %s", got, e)
			}
			for _, name := range []string{"old", "gone"} {
				for _, call := range n.calls(name) {
					if strings.HasPrefix(call, string(e)+" ") {
						t.Errorf("%s program called: %s", name, call)
					}
				}
			}
		})
	}
}

// A call that finds its program retired goes to the successor, not to nobody.
func TestRetiredProgram(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", "")
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	p := h.plugin("a")
	n.hook("a", "misbehave", "value = \"x\"")
	if err := h.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, err := p.call(t.Context(), event(hostapi.EventLaunch, "1.srv")); !errors.Is(err, errRetired) || out != nil {
		t.Errorf("%v, %v, want errRetired", out, err)
	}
	if out, err := (place{h, "a"}).call(t.Context(), event(hostapi.EventLaunch, "1.srv")); err != nil || out == nil {
		t.Errorf("%v, %v, want the successor's answer", out, err)
	}
	if out, err := (place{h, "b"}).call(t.Context(), event(hostapi.EventLaunch, "1.srv")); err != nil || out != nil {
		t.Errorf("a hook that is no more: %v, %v", out, err)
	}
}

// Of two hosts that begin one job one does, and what the other undoes is not the first one's.
func TestTwoHostsBeginOneJob(t *testing.T) {
	n := newNode(t)
	log := filepath.Join(n.dir, "log")
	n.hook("a", "misbehave", fmt.Sprintf("log = %q", log))
	selves := []hostapi.ProcessID{self, {PID: 4_000_005, StartTime: 5}}
	var hosts []*Host
	for _, id := range selves {
		n.procs.add(id)
		n.options = func(o *Options) { o.Self = id }
		hosts = append(hosts, n.open())
	}
	for job := range 20 {
		id := fmt.Sprintf("%d.srv", job+1)
		verdicts, errs := make([]*Verdict, 2), make([]error, 2)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i, h := range hosts {
			wg.Go(func() {
				<-start
				verdicts[i], errs[i] = h.Judge(t.Context(), event(hostapi.EventBegin, id))
			})
		}
		close(start)
		wg.Wait()
		winner := slices.IndexFunc(errs, func(err error) bool { return err == nil })
		if winner < 0 || verdicts[winner].Reject {
			t.Fatalf("job %s: nobody began it: %v", id, errs)
		}
		if err := errs[1-winner]; hostapi.KindOf(err) != hostapi.KindBusy || strings.Count(err.Error(), id) != 1 {
			t.Fatalf("job %s: the loser's error %v, want busy, with the job's id once", id, err)
		}
		if rec := n.record(id); rec == nil || rec.Host != selves[winner] || rec.Begun.IsZero() {
			t.Fatalf("job %s: record %+v, want the winner's", id, rec)
		}
	}
	if calls := strings.Join(n.calls("log"), "\n"); strings.Contains(calls, "abort") || strings.Count(calls, "execjob_begin") != 20 {
		t.Errorf("calls:\n%s", calls)
	}
}

// A hook that answers begin with an error of kind job, busy or node has undone its own; one that crashes has not.
func TestWhoIsUndone(t *testing.T) {
	for kind, undone := range map[string]bool{"busy": false, "job": false, "node": false, "internal": true} {
		t.Run(kind, func(t *testing.T) {
			n := newNode(t)
			n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nvalue = %q\nlog = %q", "error", kind, filepath.Join(n.dir, "log")))
			h := n.open()
			if v := judge(t, h, hostapi.EventBegin, "1.srv"); !v.Reject {
				t.Fatal("accepted")
			}
			if got := slices.Contains(n.calls("log"), "execjob_abort 1.srv 2"); got != undone {
				t.Errorf("abort sent: %v, want %v", got, undone)
			}
		})
	}
	var calls []string
	conflict := func(name, value string) fakeHook {
		h := fakeHook{Hook: Hook{Name: name, Attributes: DefaultAttributes()}, calls: &calls}
		h.answer = at(hostapi.EventBegin, &hostapi.Outcome{ResourcesUsed: hostapi.Resources{"mem": value}}, nil)
		return h
	}
	c := &chain{links: []link{conflict("a", "1kb"), conflict("b", "2kb")}, req: event(hostapi.EventBegin, "1")}
	c.run(t.Context())
	if err := c.undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(calls, ", "); got != "begin a, begin b, abort b, abort a" {
		t.Errorf("after a conflict: %s", got)
	}
}

// The JSON of a verdict is the outcome's with three keys more.
func TestVerdictJSON(t *testing.T) {
	v := Verdict{Outcome: &hostapi.Outcome{Reject: true, Message: "m"}, Hook: "a", Kind: hostapi.KindNode, FailAction: []FailAction{FailOfflineVnodes}}
	b, err := json.Marshal(v)
	if want := `{"reject":true,"message":"m","hook":"a","kind":"node","fail_action":["offline_vnodes"]}`; err != nil || string(b) != want {
		t.Errorf("%s, %v\nwant %s", b, err, want)
	}
	var back Verdict
	if err := json.Unmarshal(b, &back); err != nil || back.Message != "m" || back.Hook != "a" {
		t.Errorf("%+v, %v", back, err)
	}
	var out hostapi.Outcome
	if err := json.Unmarshal(b, &out); err != nil || !out.Reject {
		t.Errorf("%+v, %v", out, err)
	}
}

// What periodic gets is in force at once, not after the next start of the program or the end of a long wait.
func TestReloadPeriodic(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.hook("on", "misbehave", fmt.Sprintf("log = %q", filepath.Join(n.dir, "on")), "event=execjob_begin", "freq=1")
	n.hook("fast", "misbehave", fmt.Sprintf("log = %q", filepath.Join(n.dir, "fast")), "freq=3600")
	n.hook("off", "misbehave", "", "freq=3600")
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	for name, attr := range map[string]string{"on": "event=execjob_begin,exechost_periodic", "fast": "freq=1", "off": "event=execjob_begin"} {
		if err := n.registry.Set(name, attr); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"on", "fast"} {
		eventually(t, name+" is called", func() bool { return strings.Contains(strings.Join(n.calls(name), " "), "exechost_periodic") })
	}
	h.mu.RLock()
	_, armed := h.period[h.plugin("off")]
	h.mu.RUnlock()
	if armed {
		t.Error("a timer is left of a hook that gets no periodic any more")
	}
}

// What MoM measures itself is in the report, and what hooks say of the same goes before it.
func TestMoMsOwnResources(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("mode = %q\nevent = %q\nvalue = %q", "used", "execjob_epilogue", "mem=12kb"))
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	must(t, h, hostapi.EventLaunch, "1.srv")
	for _, e := range []hostapi.Event{hostapi.EventEpilogue, hostapi.EventEnd} {
		req := event(e, "1.srv")
		req.Job.ResourcesUsed = hostapi.Resources{"walltime": "01:02:03", "mem": "1kb"}
		if v, err := h.Judge(t.Context(), req); err != nil || v.Reject {
			t.Fatal(v, err)
		}
	}
	b, _, err := n.ledger.Last("1.srv")
	if err != nil || !strings.Contains(string(b), `"walltime":"01:02:03"`) || !strings.Contains(string(b), `"mem":"12kb"`) {
		t.Errorf("report %s, %v", b, err)
	}
}

// A job whose record was lost goes on with what the kernel still has of it.
func TestRecover(t *testing.T) {
	n := newNode(t)
	asked := 0
	n.options = func(o *Options) {
		o.Recover = func(_ context.Context, id string) (*jobstate.Record, error) {
			asked++
			if id != "1.srv" {
				return nil, nil
			}
			return &jobstate.Record{Job: event(hostapi.EventBegin, id).Job, Phase: jobstate.PhasePrerun}, nil
		}
	}
	h := n.open()
	must(t, h, hostapi.EventLaunch, "1.srv")
	if rec := n.record("1.srv"); rec == nil || rec.Phase != jobstate.PhaseRunning || rec.Host != self {
		t.Fatalf("record %+v", rec)
	}
	must(t, h, hostapi.EventEnd, "1.srv")
	if asked != 1 || len(n.reports()) != 1 {
		t.Errorf("asked %d times, %d reports", asked, len(n.reports()))
	}
	if v := judge(t, h, hostapi.EventLaunch, "2.srv"); !v.Reject || v.OnReject != hostapi.JobActionRerun {
		t.Errorf("a job that is nowhere: %+v", v.Outcome)
	}
}
