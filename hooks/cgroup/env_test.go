package main

import (
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func TestVariablesShowTheShareOfThisHost(t *testing.T) {
	type env = map[string]string
	on := func(vnodes string, asked func(*hostapi.Request)) func(*hostapi.Request) {
		return func(req *hostapi.Request) { asked(req); req.Job.ExecVnode = vnodes }
	}
	maximum := func(f *config.File) { f.Walltime.Maximum = config.Duration(30 * time.Minute) }
	tests := []struct {
		name string
		edit func(*config.File)
		asks func(*hostapi.Request)
		want env
	}{
		{"all of them", nil, asks("ncpus=2", "mem=64mb", "walltime=01:00:00"),
			env{"PBS_JOB_MEM": "67108864", "PBS_JOB_NCPUS": "2", "PBS_JOB_CPUS": "0-1", "PBS_JOB_WALLTIME": "3600"}},
		{"the chunks of this host, of three", nil, on("("+testNode+":ncpus=1:mem=1gb)+(other:ncpus=8:mem=5gb)+("+
			testNode+":ncpus=2:mem=2gb)", asks("ncpus=11", "mem=8gb", "walltime=90")),
			env{"PBS_JOB_MEM": "3221225472", "PBS_JOB_NCPUS": "3", "PBS_JOB_CPUS": "0-2", "PBS_JOB_WALLTIME": "90"}},
		{"whole cores", func(f *config.File) { f.Cpuset.UseHyperthreads, f.Cpuset.NCPUsAreCores = true, true },
			asks("ncpus=1", "mem=1gb"),
			env{"PBS_JOB_MEM": "1073741824", "PBS_JOB_NCPUS": "1", "PBS_JOB_CPUS": "0,4"}},
		{"no mem, no walltime", nil, asks("ncpus=1"), env{"PBS_JOB_NCPUS": "1", "PBS_JOB_CPUS": "0"}},
		{"a default of mem", func(f *config.File) { f.Memory.EnforceDefault, f.Memory.Default = true, 1<<20 },
			asks("ncpus=1"), env{"PBS_JOB_MEM": "1048576", "PBS_JOB_NCPUS": "1", "PBS_JOB_CPUS": "0"}},
		{"mem that is not limited here", func(f *config.File) { f.Memory.Enabled = false },
			asks("ncpus=1", "mem=64mb"), env{"PBS_JOB_MEM": "67108864", "PBS_JOB_NCPUS": "1", "PBS_JOB_CPUS": "0"}},
		{"no cpus", nil, asks("ncpus=0"), env{}},
		{"no cpusets", func(f *config.File) { f.Cpuset.Enabled = false }, asks("ncpus=2"),
			env{"PBS_JOB_NCPUS": "2"}},
		{"the node's maximum of walltime", maximum, asks("ncpus=0"), env{"PBS_JOB_WALLTIME": "1800"}},
		{"more than that", maximum, asks("ncpus=0", "walltime=02:00:00"), env{"PBS_JOB_WALLTIME": "1800"}},
		{"less than that", maximum, asks("ncpus=0", "walltime=60"), env{"PBS_JOB_WALLTIME": "60"}},
		{"walltime that only PBS enforces", func(f *config.File) { maximum(f); f.Walltime.Enabled = false },
			asks("ncpus=0", "walltime=02:00:00"), env{"PBS_JOB_WALLTIME": "7200"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, _ := fakeNode(t, kernfstest.NewV2, tt.edit)
			n.do(hostapi.EventBegin, "1.srv", tt.asks)
			must.Equal(t, "launch", tt.want, n.do(hostapi.EventLaunch, "1.srv").SetEnv)
		})
	}
}

// A program that is launched or attached after a resize sees the new size. Variables that another
// job's programs passed on with qsub -V are replaced or removed.
func TestVariablesFollowTheJob(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		const id = "1[2].srv"
		big, small := asks("ncpus=2", "mem=128mb", "walltime=60"), asks("ncpus=1")
		wantBig := map[string]string{"PBS_JOB_MEM": "134217728", "PBS_JOB_NCPUS": "2", "PBS_JOB_CPUS": "0-1",
			"PBS_JOB_WALLTIME": "60"}
		wantSmall := map[string]string{"PBS_JOB_NCPUS": "1", "PBS_JOB_CPUS": "0"}
		must.Equal(t, "attached after begin", wantBig, n.do(hostapi.EventBegin, id, big).AttachEnv)
		must.Equal(t, "attached after a resize", wantSmall, n.do(hostapi.EventResize, id, small).AttachEnv)
		passedOn := func(req *hostapi.Request) {
			req.Env = map[string]string{"PBS_JOB_MEM": "1", "PBS_JOB_NCPUS": "64", "PBS_JOB_ID": "9"}
		}
		out := n.do(hostapi.EventLaunch, id, small, passedOn)
		must.Equal(t, "launch: set", wantSmall, out.SetEnv)
		must.Equal(t, "launch: unset", []string{"PBS_JOB_MEM"}, out.UnsetEnv)

		n.restart() // the mark shows the size
		out = n.do(hostapi.EventPeriodic, "", func(req *hostapi.Request) {
			req.JobList[id].ResourceList = hostapi.Resources{"ncpus": "1"}
		})
		must.Equal(t, "attached after the record was lost", wantSmall, out.Jobs[id].AttachEnv)

		n.do(hostapi.EventResize, id, big)
		must.Equal(t, "launch of the larger job", wantBig, n.do(hostapi.EventLaunch, id, big, passedOn).SetEnv)
	})
}
