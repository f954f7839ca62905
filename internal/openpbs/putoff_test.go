package openpbs

import (
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

func TestBeginOfAHeldPlaceIsNotCounted(t *testing.T) {
	now := time.Unix(1800000000, 0)
	const uncounted, waits = "pbs.event().job.run_count=3\n", "pbs.event().job.Execution_Time=1800000030\n"
	for name, tt := range map[string]struct {
		id             string
		count, version int
		want           string
	}{
		"sent at once":             {"1.srv", 4, 10, uncounted},
		"sent half a minute later": {"1.srv", 4, 11, uncounted + waits},
		"a subjob":                 {"1[2].srv", 4, 10, uncounted},
		"a subjob cannot wait":     {"1[2].srv", 4, 11, ""},
		"PBS without run_version":  {"1.srv", 4, 0, ""},
		"a count of none":          {"1.srv", 0, 11, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Event{Request: &hostapi.Request{Event: hostapi.EventBegin, Node: "n1",
				Job: &hostapi.Job{ID: tt.id, RunCount: tt.count, RunVersion: tt.version}}}
			c := e.Changes(&hostapi.Outcome{Reject: true, OnReject: hostapi.JobActionRerun, Message: "no"}, nil,
				Offlining{})
			e.PutOff(c, now)
			text, ok := e.Output(c)
			must.Equal(t, "MoM's file can have it", true, ok)
			must.Equal(t, "MoM's file", "pbs.event().reject=True\npbs.event().accept=False\n"+
				"pbs.event().reject_msg=no\n"+tt.want+"pbs.event().job._rerun=True\n", string(text))
		})
	}
}
