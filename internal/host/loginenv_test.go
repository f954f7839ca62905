package host

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
)

// A login session gets what describes the job and no task, what hooks have set at the first launch,
// and what attached processes get. A host that has launched nothing has less.
func TestLoginSessionGetsTheJobsVariables(t *testing.T) {
	n := newNode(t)
	n.hook("a", "misbehave", "mode = \"env\"\nevent = \"execjob_launch\"\nvalue = \"A=1\"", "event=execjob_launch")
	n.hook("c", "misbehave", "mode = \"say\"\nevent = \"execjob_launch\"\nvalue = '{\"unset_env\":[\"PBS_QUEUE\"]}'",
		"event=execjob_launch")
	n.hook("b", "misbehave", "mode = \"attach-env\"\nvalue = \"B\"", "event=execjob_begin")
	h := n.open()
	sized(t, h, hostapi.EventBegin, "2", true)
	check := func(what string, want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, LoginEnv(h.opt.Store.Get("1.srv"))); diff != "" {
			t.Errorf("%s: -want +got:\n%s", what, diff)
		}
	}
	check("before the launch", map[string]string{"PBS_JOBID": "1.srv", "B": "2"})
	for _, tmp := range []string{"/var/tmp/pbs.1.srv", "/tmp"} {
		req := requestOf(hostapi.EventLaunch, "1.srv")
		req.Env = map[string]string{"TMPDIR": tmp, "PBS_JOBNAME": strings.Repeat("q", longestVariable+1),
			"PBS_JOBCOOKIE": "secret", "PBS_QUEUE": "unset", "HOME": "/", "LD_PRELOAD": "x.so"}
		if v, err := h.Handle(t.Context(), req); err != nil || v.Reject {
			t.Fatal(v, err)
		}
	}
	check("after two launches",
		map[string]string{"PBS_JOBID": "1.srv", "B": "2", "A": "1", "TMPDIR": "/var/tmp/pbs.1.srv"})
}
