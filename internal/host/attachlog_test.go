package host

import (
	"strings"
	"testing"

	"golang.org/x/time/rate"

	"github.com/hookhost/hookhost/hostapi"
)

// A user who attaches without end does not fill the log, whatever becomes of the attaches.
func TestAttachesAreLoggedWithinBounds(t *testing.T) {
	for name, end := range map[string]bool{"accepted": false, "failed": true} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			h := n.open()
			must(t, h, hostapi.EventBegin, "1.srv")
			if end {
				must(t, h, hostapi.EventEpilogue, "1.srv")
			}
			const attaches = 500
			for range attaches {
				if _, err := h.Handle(t.Context(), requestOf(hostapi.EventAttach, "1.srv")); (err != nil) != end {
					t.Fatal(err)
				}
			}
			lines := strings.Count(n.log.String(), `"event":"execjob_attach"`)
			if lines < attachBurst || lines > attachBurst+20 { // a minute's worth, for a machine that takes that long
				t.Errorf("%d lines about %d attaches", lines, attaches)
			}
			h.attaches.pace.SetLimit(rate.Inf)
			h.Handle(t.Context(), requestOf(hostapi.EventAttach, "1.srv"))
			if !strings.Contains(n.log.String(), `"not_logged":`) {
				t.Error("the log does not say how many it leaves out")
			}
		})
	}
}
