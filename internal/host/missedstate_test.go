package host

import (
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

// A suspension or resumption whose event no daemon answered is carried out when two of MoM's lists
// in a row show it.
func TestMissedSuspensionAndResumption(t *testing.T) {
	n := newPBSNode(t, &momFiles{jobs: map[string]bool{"1.srv": true}})
	h := n.open()
	fromPBS(t, h, requestOf(hostapi.EventBegin, "1.srv"))
	fromPBS(t, h, requestOf(hostapi.EventLaunch, "1.srv"))
	list := func(told hostapi.Phase) {
		t.Helper()
		req := requestOf(hostapi.EventPeriodic, "")
		req.JobList = map[string]*hostapi.Job{"1.srv": {ID: "1.srv", Phase: told}}
		fromPBS(t, h, req)
	}
	is := func(want hostapi.Phase) {
		t.Helper()
		plugintest.Eventually(t, string(want), func() bool { return n.record("1.srv").Phase == want })
	}
	stays := func(want hostapi.Phase, events string) {
		t.Helper()
		h.background.Wait()
		if got := n.record("1.srv").Phase; got != want || n.events("1.srv") != events {
			t.Errorf("%s, events %q; want %s, %q", got, n.events("1.srv"), want, events)
		}
	}
	const running, suspended = hostapi.PhaseRunning, hostapi.PhaseSuspended
	list(running)
	list(suspended) // the event may have overtaken this list
	list(running)
	list(suspended)
	list("") // says nothing
	list(suspended)
	stays(running, "begin launch")
	list(suspended)
	is(suspended)
	stays(suspended, "begin launch postsuspend")
	list(running)
	list(suspended)
	list(running)
	stays(suspended, "begin launch postsuspend")
	list(running)
	is(running)
	// A suspended job that is deleted runs again, so that it takes its SIGTERM.
	fromPBS(t, h, requestOf(hostapi.EventPostsuspend, "1.srv"))
	fromPBS(t, h, requestOf(hostapi.EventPreterm, "1.srv"))
	list(suspended)
	list(suspended)
	list(suspended)
	stays(running, "begin launch postsuspend preresume postsuspend preterm")
}
