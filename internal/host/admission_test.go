package host

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
)

// An event from outside cannot set what only the host may set.
func TestCheckDropsWhatTheHostSets(t *testing.T) {
	h := &Host{opt: Options{Node: "n1"}}
	got, err := h.check(&hostapi.Request{
		Event: hostapi.EventEnd, Partial: true, PBS: true, MoMHome: "/x",
		Job: &hostapi.Job{
			ID: "1.srv", Phase: hostapi.PhaseSuspended, Elapsed: time.Hour, State: json.RawMessage(`1`),
		},
	})
	want := &hostapi.Request{Event: hostapi.EventEnd, Node: "n1", Job: &hostapi.Job{ID: "1.srv"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}
