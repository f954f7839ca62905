package host

import (
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// An hour of idleness and a minute of work read as what each of them is.
func TestCPUPercentIsOfTheTimeInBetween(t *testing.T) {
	start := jobstate.Moment{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	rec := &jobstate.Record{Job: &hostapi.Job{ID: "1.srv"}, Phase: hostapi.PhaseRunning, Launched: start}
	found := func(cput float64) *chain {
		u := &hostapi.JobUpdate{Usage: &hostapi.HostUsage{CPUTSeconds: &cput},
			ResourcesUsed: hostapi.Resources{"cpupercent": "77"}}
		c := &chain{}
		c.merged.out.Jobs = map[string]*hostapi.JobUpdate{"1.srv": u}
		return c
	}
	for _, step := range []struct {
		at   time.Duration
		cput float64
		told bool // MoM is
		want string
	}{
		{200 * time.Millisecond, 0.1, true, "77"}, // too short for a share of our own
		{time.Hour, 36, true, "1"},
		{time.Hour + 30*time.Second, 96, false, "200"}, // somebody has asked for a report
		{time.Hour + time.Minute, 96, true, "100"},
		{time.Hour + time.Minute + 500*time.Millisecond, 97, true, "100"}, // nothing new yet
		{time.Hour + 2*time.Minute, 96, true, "0"},
		{time.Hour + 3*time.Minute, 90, true, "0"}, // a counter never goes back
		{time.Hour + 4*time.Minute, 96.2, true, "0"},
		{time.Hour + 5*time.Minute, 126.1, true, "50"},
	} {
		c, now := found(step.cput), start.Add(step.at)
		recordUpdates(rec, "n1", c, now)
		if step.told {
			reported(rec, "n1", c, now)
		}
		if got := c.merged.out.Jobs["1.srv"].ResourcesUsed["cpupercent"]; got != step.want ||
			rec.ResourcesUsed["cpupercent"] != got {
			t.Errorf("after %v: %s, in the record %s, want %s", step.at, got, rec.ResourcesUsed["cpupercent"],
				step.want)
		}
	}
	// Suspended time does not count, as it does not in walltime.
	rec = &jobstate.Record{Job: &hostapi.Job{ID: "1.srv"}, Phase: hostapi.PhaseRunning, Launched: start,
		Suspended: time.Hour}
	c := found(30)
	recordUpdates(rec, "n1", c, start.Add(time.Hour+time.Minute))
	if got := rec.ResourcesUsed["cpupercent"]; got != "50" {
		t.Errorf("beside a suspension: %s", got)
	}
	// A MoM of ours gets the share of the whole run.
	rec = &jobstate.Record{Job: &hostapi.Job{ID: "1.srv"}, Phase: hostapi.PhaseRunning, Launched: start,
		Runner: &hostapi.ProcessID{PID: 7}}
	recordUpdates(rec, "n1", found(30), start.Add(time.Minute))
	if got := rec.ResourcesUsed["cpupercent"]; got != "77" {
		t.Errorf("%+v: %s", rec, got)
	}
}

// MoM gets at its periodic what hooks said and measured at events before it.
func TestPeriodicGivesMoMEarlierDiagnosticsAndUsage(t *testing.T) {
	kb := func(n int64) *hostapi.HostUsage { return &hostapi.HostUsage{MemBytes: new(n << 10)} }
	rec := &jobstate.Record{Job: &hostapi.Job{ID: "1.srv"}, Phase: hostapi.PhaseRunning,
		Diag:  map[string]string{"n1": "Cgroup mem limit exceeded", "n2": "x"},
		Hosts: map[string]*hostapi.HostUsage{"n1": kb(9), "n2": kb(99)}}
	c := &chain{}
	c.merged.out.Jobs = map[string]*hostapi.JobUpdate{
		"1.srv": {ResourcesUsed: hostapi.Resources{"mem": "1kb"}, Usage: kb(1)}}
	recordUpdates(rec, "n1", c, jobstate.Moment{})
	reported(rec, "n1", c, jobstate.Moment{})
	u := c.merged.out.Jobs["1.srv"]
	if u.Diag != "Cgroup mem limit exceeded" || u.Usage.MemBytes == nil || *u.Usage.MemBytes != 9<<10 {
		t.Errorf("%q, %+v", u.Diag, u.Usage)
	}
}

// A periodic that has measured a job before its epilogue may be answered after it. MoM keeps what
// it was told last.
func TestPeriodicDoesNotReplaceTheUsageOfTheEpilogue(t *testing.T) {
	rec := &jobstate.Record{Job: &hostapi.Job{ID: "1.srv"}, Phase: hostapi.PhaseExiting,
		ResourcesUsed: hostapi.Resources{"cput": "00:00:02"}, Diag: map[string]string{"n1": "unkillable"}}
	c := &chain{}
	c.merged.out.Jobs = map[string]*hostapi.JobUpdate{"1.srv": {ResourcesUsed: hostapi.Resources{"cput": "00:00:01"}}}
	recordUpdates(rec, "n1", c, jobstate.Moment{})
	reported(rec, "n1", c, jobstate.Moment{})
	u := c.merged.out.Jobs["1.srv"]
	if u.ResourcesUsed != nil || u.Diag != "unkillable" || rec.ResourcesUsed["cput"] != "00:00:02" {
		t.Errorf("MoM is told %+v, the record has %v", u, rec.ResourcesUsed)
	}
}
