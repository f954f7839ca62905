package host

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// The mother superior's report has what MoM tells of the sisters at the job's end. Until then they
// are missing from it.
func TestUsageOnSistersIsMissingUntilMoMTells(t *testing.T) {
	n := newPBSNode(t, &momFiles{})
	options := n.options
	var asked []string
	n.options = func(o *Options) {
		options(o)
		o.SisterUsage = func(_ *jobstate.Record, hosts []string) map[string]SisterUsage {
			asked = hosts
			return map[string]SisterUsage{
				"n2": {Usage: &hostapi.HostUsage{NCPUs: 2, CPUTSeconds: new(7.0)}},
				"n3": {Err: errors.New("not logged")},
			}
		}
	}
	h := n.open()
	of := func(e hostapi.Event) *hostapi.Request {
		req := requestOf(e, "1.srv")
		req.Job.MotherSuperior = true
		req.Job.ExecVnode = "(n1:ncpus=1)+(n2:ncpus=2)+(n3:ncpus=1)+(n2:ncpus=1)"
		return req
	}
	fromPBS(t, h, of(hostapi.EventBegin))
	later := errLater.Error()
	if diff := cmp.Diff(map[string]string{"n2": later, "n3": later}, n.record("1.srv").Missing); diff != "" {
		t.Errorf("missing of a live job (-want +got):\n%s", diff)
	}
	fromPBS(t, h, of(hostapi.EventLaunch))
	fromPBS(t, h, of(hostapi.EventEpilogue))
	rec := n.record("1.srv")
	if diff := cmp.Diff(map[string]string{"n3": "not logged"}, rec.Missing); diff != "" {
		t.Errorf("missing of a job that has ended (-want +got):\n%s", diff)
	}
	if u := rec.Hosts["n2"]; u == nil || u.NCPUs != 2 || *u.CPUTSeconds != 7 {
		t.Errorf("usage on n2: %+v", u)
	}
	if diff := cmp.Diff([]string{"n2", "n3"}, asked); diff != "" {
		t.Errorf("hosts that were asked about (-want +got):\n%s", diff)
	}
	// A sister has its own part alone.
	sister := of(hostapi.EventBegin)
	sister.Job.ID, sister.Job.MotherSuperior = "2.srv", false
	fromPBS(t, h, sister)
	if missing := n.record("2.srv").Missing; missing != nil {
		t.Errorf("missing on a sister: %v", missing)
	}
}
