package report

import (
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

func TestSummaryHasSixLinesAtMost(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	end := start.Add(10 * time.Minute)
	job := func(edit func(*Report)) *Report {
		r := &Report{Job: "12.s", Start: &start, End: &end, ExitStatus: new(3),
			ResourcesUsed: Used{"cput": "00:05:00", "walltime": "00:10:00", "mem": "1024kb", "ncpus": "1"},
			Hosts: map[string]*hostapi.HostUsage{
				"n1": {NCPUs: 1, CPUTSeconds: new(300.0), MemBytes: new(int64(1 << 20))},
			}}
		edit(r)
		return r
	}
	gpu := hostapi.DeviceUsage{ID: "a", UtilizationPercent: new(50.0)}
	for name, tt := range map[string]struct {
		edit   func(*Report)
		labels string
	}{
		"plain": {func(*Report) {}, "hookhost: Elapsed CPU Memory More"},
		"a note": {func(r *Report) { r.Notes = []string{"a", "b"} },
			"hookhost: Elapsed CPU Memory Notes More"},
		"a GPU": {func(r *Report) { r.Hosts["n1"].Devices = []hostapi.DeviceUsage{gpu} },
			"hookhost: Elapsed CPU Memory GPU More"},
		"nothing known": {func(r *Report) { r.ResourcesUsed, r.Hosts = nil, nil; r.Start = nil }, "hookhost: More"},
		"not started":   {func(r *Report) { r.NotStarted = true }, ""},
	} {
		lines := job(tt.edit).Summary()
		var labels []string
		for _, line := range lines {
			labels = append(labels, strings.Fields(line)[0])
			if strings.ContainsAny(line, "\n\x1b") || len(line) > 200 {
				t.Errorf("%s: %q", name, line)
			}
		}
		must.Equal(t, name, tt.labels, strings.Join(labels, " "))
	}
}
