package cgroup

import (
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// A mark may have keys from a newer version.
func TestMarkIsReadAsItWasStored(t *testing.T) {
	roots := kernfstest.NewV2().Roots()
	tree, err := Detect(roots, Options{})
	must.NoError(t, err)
	must.NoError(t, tree.Prepare())
	j, err := tree.Job("1.srv")
	must.NoError(t, err)
	must.NoError(t, j.Create(Limits{}))
	must.NoError(t, j.SetMark(jobMark, []byte(`{"begin": {"event": "execjob_begin", "job": {"id": "1.srv"}}, "newer": 1,
		"granted": {"begun_us": 7, "ncpus": 2, "per_task": true, "delegated": true, "limits": {"mem": 64, "cpus": "0-1", "mems": "0"}}}`)))
	got, err := j.JobMark()
	must.NoError(t, err)
	cpus, err := kernfs.ParseIDSet("0-1")
	must.NoError(t, err)
	mems, err := kernfs.ParseIDSet("0")
	must.NoError(t, err)
	want := JobMark{
		Begin: &hostapi.Request{Event: hostapi.EventBegin, Job: &hostapi.Job{
			ID: "1.srv", MotherSuperior: true, Owner: hostapi.Owner{UID: -1, GID: -1},
		}},
		Assigned: Assigned{
			Limits:      &Limits{Mem: new(int64(64)), CPUs: cpus, Mems: mems},
			NCPUs:       2,
			BegunMicros: 7,
			PerTask:     true,
			Delegated:   true,
		},
	}
	must.Equal(t, "mark", want, got, cmpSets)
	must.NoError(t, j.SetJobMark(want))
	got, err = j.JobMark()
	must.NoError(t, err)
	must.Equal(t, "mark that was stored", want, got, cmpSets)
}
