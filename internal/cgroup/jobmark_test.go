package cgroup

import (
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// Jobs live on over an upgrade, with marks that have more and other keys.
func TestRecordOfAnEarlierVersionIsRead(t *testing.T) {
	roots := kernfstest.NewV2().Roots()
	tree, err := Detect(roots, Options{})
	must.NoError(t, err)
	must.NoError(t, tree.Prepare())
	j, err := tree.Job("1.srv")
	must.NoError(t, err)
	must.NoError(t, j.Create(Limits{}))
	must.NoError(t, j.SetMark(jobMark, []byte(`{"begin": {"event": "execjob_begin", "job": {"id": "1.srv"}},
		"state": {"begun_us": 7, "launched_us": 8, "ncpus": 2, "cpus": "0-1", "mem_limit": 9, "per_task": true, "suspended_us": 3},
		"limits": {"mem": 64, "cpus": "0-1", "mems": "0"}, "ending": true, "suspended": true}`)))
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
		Granted: Granted{
			Limits:      &Limits{Mem: new(int64(64)), CPUs: cpus, Mems: mems},
			NCPUs:       2,
			BegunMicros: 7,
			PerTask:     true,
			Part:        true,
		},
	}
	must.Equal(t, "record", want, got, cmpSets)
	for _, part := range []bool{true, false} { // an undone resize keeps it
		want.Part = part
		must.NoError(t, j.SetJobMark(want))
		got, err = j.JobMark()
		must.NoError(t, err)
		must.Equal(t, "mark of this version", want, got, cmpSets)
	}
}
