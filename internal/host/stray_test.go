package host

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

func strayOf(pid int, match string) hostapi.Stray {
	return hostapi.Stray{Process: hostapi.ProcessID{PID: pid, StartTime: 1}, Comm: "sl\x1beep", Match: match}
}

// found has the host hear of strays, and waits until it is through with them.
func foundStrays(t *testing.T, h *Host, id string, strays ...hostapi.Stray) {
	t.Helper()
	h.adopt(h.ctx, &chain{answers: []answer{{hook: "mpi",
		out: &hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{id: {Strays: strays}}}}}})
	plugintest.Eventually(t, "the strays are dealt with", func() bool {
		h.adopting.mu.Lock()
		defer h.adopting.mu.Unlock()
		return len(h.adopting.keys) == 0
	})
}

func TestAdoptTakesInWhatIsTheJobs(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	for pid := 10; pid < 200; pid++ {
		n.procs.add(hostapi.ProcessID{PID: pid, StartTime: 1})
	}
	notes := func() []string { return n.record("1.srv").Notes }
	want := func(what string, lines ...string) {
		t.Helper()
		if got := notes(); !slices.Equal(got, lines) {
			t.Errorf("%s: %q\nwant %q", what, got, lines)
		}
	}
	foundStrays(t, h, "1.srv", strayOf(10, "environment"), strayOf(11, "ancestry"),
		strayOf(9, "session")) // which has ended
	want("taken in", "adopted pid 10 (sl?eep): environment", "adopted pid 11 (sl?eep): ancestry")
	if rec := n.record("1.srv"); rec.Phase != hostapi.PhaseRunning || rec.Launched.IsZero() {
		t.Errorf("the first process is the job's start: %s, %v", rec.Phase, rec.Launched)
	}
	if n := h.Counts().Adopted; n != 2 {
		t.Errorf("%d adopted are counted, want 2", n)
	}
	foundStrays(t, h, "2.srv", strayOf(16, "environment")) // no such job
	must(t, h, hostapi.EventPostsuspend, "1.srv")
	before := notes()
	foundStrays(t, h, "1.srv", strayOf(17, "environment"))
	want("a job that is suspended", before...)
	must(t, h, hostapi.EventPreresume, "1.srv")
	var many []hostapi.Stray
	for pid := 20; pid < 150; pid++ {
		many = append(many, strayOf(pid, "session"))
	}
	foundStrays(t, h, "1.srv", many...)
	all := notes()
	if slices.Contains(all, fmt.Sprintf("adopted pid %d (sl?eep): session", 20+hostapi.MaxStrays)) {
		t.Errorf("more than %d strays at once: %d notes", hostapi.MaxStrays, len(all))
	}
	if lines := strings.Count(n.log.String(), `"msg":"adopted pid `); lines > attachBurst+20 { // a minute's worth
		t.Errorf("%d lines about %d strays", lines, len(many))
	}
	must(t, h, hostapi.EventEpilogue, "1.srv")
	foundStrays(t, h, "1.srv", strayOf(160, "environment"))
	got := slices.DeleteFunc(notes(), func(note string) bool { return strings.HasPrefix(note, "suspended for ") })
	if !slices.Equal(got, all) {
		t.Errorf("a job that is ending: %q", got)
	}
	must(t, h, hostapi.EventEnd, "1.srv")
}

// A rejection of a stray is in the notes.
func TestAdoptRefused(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.hook("h", "misbehave", "mode = \"reject\"\nevent = \"execjob_attach\"")
	h := n.open()
	must(t, h, hostapi.EventBegin, "1.srv")
	for pid := 10; pid < 20; pid++ {
		n.procs.add(hostapi.ProcessID{PID: pid, StartTime: 1})
	}
	foundStrays(t, h, "1.srv", strayOf(10, "environment"))
	if got := n.record("1.srv").Notes; len(got) != 1 ||
		!strings.HasPrefix(got[0], "did not adopt pid 10 (sl?eep): execjob_attach request rejected by 'h'") {
		t.Errorf("%q", got)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	update := &hostapi.JobUpdate{Strays: []hostapi.Stray{strayOf(12, "session")}}
	out := &hostapi.Outcome{Jobs: map[string]*hostapi.JobUpdate{"1.srv": update}}
	h.adopt(h.ctx, &chain{answers: []answer{{out: out}}})
}
