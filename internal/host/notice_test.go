package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

// told waits until a hook has told a line about a job.
func (n *node) told(id, line string) {
	n.t.Helper()
	plugintest.Eventually(n.t, "the notice", func() bool { return slices.Contains(n.record(id).Told, line) })
}

// A notice is in the record at once, and in the outcome of epilogue.
func TestNoticeIsRecordedAndInTheOutcome(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", "mode = \"tell\"\nevent = \"execjob_launch\"\nvalue = \"a process was killed\"")
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	must(t, h, hostapi.EventLaunch, "1.srv")
	n.told("1.srv", "a process was killed")
	rec := n.record("1.srv")
	if *rec.Hosts["n1"].OOMKills != 1 || rec.Diag["n1"] != "told" ||
		!slices.Equal(rec.Notes, []string{"a process was killed"}) {
		t.Errorf("record: %+v, %v, %v", rec.Hosts["n1"], rec.Diag, rec.Notes)
	}
	v := must(t, h, hostapi.EventEpilogue, "1.srv")
	if !slices.Equal(v.JobStderr, []string{"a process was killed"}) || v.Diag != "told" {
		t.Errorf("epilogue: %q, %q", v.JobStderr, v.Diag)
	}
	must(t, h, hostapi.EventEnd, "1.srv")
}

// A notice does not wait for an event of its job; its state does not overtake the event's.
func TestNoticeBesideEvent(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", "")
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	// Not from the program: how long an event has the job's turn after its hook has answered is the
	// disk's affair.
	tell := func(line, state string) {
		t.Helper()
		update := &hostapi.JobUpdate{JobStderr: []string{line}, State: []byte(state)}
		err := pluginHost{h}.Notice("a", "1.srv", update)
		if err != nil {
			t.Error(err)
		}
	}
	tell("x", `{"told":true}`)
	release, err := h.jobs.acquire(t.Context(), "1.srv", course)
	if err != nil {
		t.Fatal(err)
	}
	tell("y", `{"older":true}`)
	release()
	rec := n.record("1.srv")
	if !slices.Equal(rec.Told, []string{"x", "y"}) || string(rec.HookState["a"]) != `{"told":true}` {
		t.Errorf("told %q, state %s", rec.Told, rec.HookState["a"])
	}
	if n.log.Find("the state in a notice is dropped") == nil {
		t.Error("the dropped state is not logged")
	}
}

// A notice that cannot be taken is refused and leaves no trace.
func TestNoticeDropped(t *testing.T) {
	n := newNode(t)
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	told := &hostapi.JobUpdate{JobStderr: []string{"x"}}
	err := pluginHost{h}.Notice("a", "9.srv", told)
	if err == nil || !strings.Contains(err.Error(), "no such job") {
		t.Errorf("unknown job: %v", err)
	}
	if rec := n.record("9.srv"); rec != nil {
		t.Errorf("unknown job: record %+v", rec)
	}
	must(t, h, hostapi.EventEpilogue, "1.srv")
	err = pluginHost{h}.Notice("a", "1.srv", told)
	if !errors.Is(err, errEnding) || n.record("1.srv").Told != nil {
		t.Errorf("ending job: %v, told %q", err, n.record("1.srv").Told)
	}
	must(t, h, hostapi.EventEnd, "1.srv")
}

// A notice that comes while begin is under way is not lost with the record that begin replaces.
func TestNoticeDuringBegin(t *testing.T) {
	now := &jobstate.Record{Told: []string{"x"}, Notes: []string{"x"}, Diag: map[string]string{"n1": "d"},
		Hosts:         map[string]*hostapi.HostUsage{"n1": {OOMKills: new(int64(2))}},
		ResourcesUsed: hostapi.Resources{"mem": "1kb", "cput": "00:00:01"}}
	rec := &jobstate.Record{Notes: []string{"begun"}, ResourcesUsed: hostapi.Resources{"mem": "2kb"}}
	carryNotices(rec, now, "n1")
	if !slices.Equal(rec.Told, []string{"x"}) || !slices.Equal(rec.Notes, []string{"begun", "x"}) ||
		rec.Diag["n1"] != "d" ||
		*rec.Hosts["n1"].OOMKills != 2 || rec.ResourcesUsed["mem"] != "2kb" || rec.ResourcesUsed["cput"] != "00:00:01" {
		t.Errorf("%+v", rec)
	}
}

// A hook that tells without end fills neither the record nor memory, and other hooks and events go
// on.
func TestNoticeFlood(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", "mode = \"flood\"\nevent = \"execjob_launch\"")
	n.hook("b", "misbehave", "mode = \"tell\"\nevent = \"execjob_attach\"\nvalue = \"heard\"")
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	must(t, h, hostapi.EventLaunch, "1.srv")
	plugintest.Eventually(t, "the flood is met",
		func() bool { return n.log.Find("job_stderr: too much was told") != nil })
	rec := n.record("1.srv")
	if len(rec.Told) != maxTold || len(rec.Notes) > maxTold {
		t.Errorf("%d lines told, %d notes, want %d", len(rec.Told), len(rec.Notes), maxTold)
	}
	began := time.Now()
	must(t, h, hostapi.EventBegin, "2.srv")
	must(t, h, hostapi.EventAttach, "2.srv")
	n.told("2.srv", "heard")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("another job's events and notice took %v", took)
	}
	plugintest.Eventually(t, "more is dropped than is said",
		func() bool { return strings.Count(n.log.String(), "notice dropped") >= 20 })
	time.Sleep(500 * time.Millisecond) // ten more are dropped
	if lines := strings.Count(n.log.String(), "notice dropped"); lines > 21 {
		t.Errorf("%d lines about dropped notices, want 20", lines)
	}
}

// The resources_used of notices are bounded as well. The same ones again take no room.
func TestNoticeFull(t *testing.T) {
	many := hostapi.Resources{}
	for i := range maxTold {
		many[fmt.Sprint("r", i)] = "1kb"
	}
	for _, tt := range []struct {
		name      string
		had, told hostapi.Resources
		full      bool
	}{
		{"as many as may be", nil, many, false},
		{"the same again", many, many, false},
		{"one more", many, hostapi.Resources{"mem": "1kb"}, true},
		{"endless", nil, hostapi.Resources{"mem": strings.Repeat("1", maxTexts)}, true},
		{"none, of a job that has too many", hostapi.Resources{"mem": strings.Repeat("1", 2*maxTexts)}, nil, false},
	} {
		if err := full(&jobstate.Record{ResourcesUsed: tt.had}, "n1",
			&hostapi.JobUpdate{ResourcesUsed: tt.told}); (err != nil) != tt.full {
			t.Errorf("%s: %v, want full %t", tt.name, err, tt.full)
		}
	}
}

// A program that sends what the SDK would not let it is not believed.
func TestNoticeLies(t *testing.T) {
	n := newNode(t)
	n.hook("a", "liar", "")
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	for _, why := range []string{"no such job", "job id", "control character", "unexpected end of JSON"} {
		plugintest.Eventually(t, "dropped: "+why, func() bool {
			e := n.log.Find("notice dropped: ")
			return e != nil && e["hook"] == "a" && n.log.Find(why) != nil
		})
	}
	if rec := n.record("1.srv"); rec.Told != nil || rec.Notes != nil {
		t.Errorf("told %q, notes %q", rec.Told, rec.Notes)
	}
	must(t, h, hostapi.EventEnd, "1.srv")
}

// A hook that was built before there were notices works without.
func TestNoticeOldHook(t *testing.T) {
	n := newNode(t)
	n.hook("a", "old-sdk", "mode = \"tell\"\nevent = \"execjob_launch\"\nvalue = \"x\"")
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	must(t, h, hostapi.EventLaunch, "1.srv")
	must(t, h, hostapi.EventEpilogue, "1.srv")
	must(t, h, hostapi.EventEnd, "1.srv")
	for _, s := range h.hooks(t) {
		if s.State != "running" || s.Error != "" {
			t.Errorf("%+v", s)
		}
	}
	if e := n.log.Find("not heard"); e != nil {
		t.Errorf("an error: %v", e)
	}
}

func (h *Host) hooks(t *testing.T) []plugin.Status {
	t.Helper()
	list, err := h.Hooks()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// After a crash the next program is heard as well.
func TestNoticeAfterCrash(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", fmt.Sprintf("mode = \"exit\"\nevent = \"execjob_launch\"\nonce = %q", n.dir+"/once"))
	n.hook("b", "misbehave", "mode = \"tell\"\nevent = \"execjob_launch\"\nvalue = \"x\"")
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	first := hookPID(t, h, "b")
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	plugintest.Eventually(t, "the next program",
		func() bool { pid := hookPID(t, h, "b"); return pid != 0 && pid != first })
	must(t, h, hostapi.EventLaunch, "1.srv")
	n.told("1.srv", "x")
}
