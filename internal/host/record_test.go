package host

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
)

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
