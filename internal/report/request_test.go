package report

import (
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
)

func TestRequestIsAsForQsub(t *testing.T) {
	for _, tt := range []struct {
		chunks string
		list   hostapi.Resources
		want   string
	}{
		{"1:ncpus=1:mem=100mb", hostapi.Resources{"mem": "100mb", "ncpus": "1", "place": "free", "walltime": "300"},
			"select=1:ncpus=1:mem=100mb, walltime=00:05:00"}, // what pbs_mom has
		{"1:ncpus=1", hostapi.Resources{"select": "2:ncpus=4:mem=1gb:ngpus=1", "mem": "2gb", "ncpus": "8", "ngpus": "2",
			"nodect": "2", "place": "scatter:excl", "cput": "01:00:00", "walltime": "01:00:00"},
			"select=2:ncpus=4:mem=1gb:ngpus=1, cput=01:00:00, place=scatter:excl, walltime=01:00:00"},
		{"1:ncpus=8", hostapi.Resources{"nodes": "1:ppn=8", "ncpus": "8"}, "select=1:ncpus=8"},
		{"", hostapi.Resources{"ncpus": "2", "mem": "64mb"}, "mem=64mb, ncpus=2"},
		{"", nil, ""},
	} {
		r := fromRecord(record(func(r *jobstate.Record) {
			r.Job.Schedselect, r.Job.ResourceList = tt.chunks, tt.list
		}), ended)
		must.Equal(t, "request", tt.want, r.request())
	}
}
