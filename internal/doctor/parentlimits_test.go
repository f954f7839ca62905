package doctor

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// The finding has the figures by which jobs are limited, and says where the kernel has others.
func TestLimitsOfAllJobsAreFound(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	const mem, all = 15 << 30, "mem 15728640kb, cpus 0-7, tasks 117965"
	excluding := func(f *config.File) { f.Cpuset.ExcludeCPUs = "0" }
	for _, tt := range []struct {
		name   string
		edit   func(*config.File)
		force  *cgroup.Limits // nil: hookhost has no job
		unit   string         // pids.max of the unit
		status Status
		want   string
	}{
		{"before the first job", nil, nil, "", OK, all},
		{"in force", nil, &cgroup.Limits{Mem: n(mem), Pids: n(117965)}, "", OK, all},
		{"more is in use", nil, &cgroup.Limits{Mem: n(16 << 30), Pids: n(117965)}, "", Degraded,
			"mem 16777216kb is in force instead of 15728640kb: jobs have more"},
		{"none in force", nil, &cgroup.Limits{Mem: n(mem)}, "", Degraded, "tasks 117965 is not in force"},
		{"a TasksMax of the unit", nil, &cgroup.Limits{Mem: n(mem), Pids: n(5000)}, "5000", Degraded,
			"pids.max 5000: jobs have that instead of 117965"},
		{"excluded cpus before the first job", excluding, nil, "", OK, "mem 15728640kb, cpus 1-7, tasks 117965"},
		{"excluded cpus in force", excluding, &cgroup.Limits{Mem: n(mem), CPUs: kernfs.IDs(1, 2), Pids: n(117965)}, "",
			OK, "cpus 1-7"},
		{"an excluded cpu is in use", excluding, &cgroup.Limits{Mem: n(mem), Pids: n(117965)}, "", Degraded,
			"cpus 0-7 are in force instead of 1-7: jobs have more"},
		{"nothing enabled", func(f *config.File) {
			f.Memory.Enabled, f.Cpuset.Enabled, f.Pids.Enabled = false, false, false
		}, &cgroup.Limits{}, "", OK, "none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := kernfstest.NewV2()
			passDown(t, k.Roots(), "memory", "cpuset", "pids")
			if tt.force != nil {
				tree, err := cgroup.Detect(k.Roots(), cgroup.Options{Signal: k.Signal})
				must.NoError(t, err)
				must.NoError(t, tree.Prepare())
				must.NoError(t, tree.LimitParent(*tt.force))
				job, err := tree.Job("1.srv")
				must.NoError(t, err)
				must.NoError(t, job.Create(cgroup.Limits{}))
				begin := &hostapi.Request{Job: &hostapi.Job{ID: job.ID()}}
				must.NoError(t, job.SetJobMark(cgroup.JobMark{Begin: begin}))
			}
			if tt.unit != "" {
				must.NoError(t, k.Roots().Cgroup.Write("pbs_jobs.service/pids.max", tt.unit))
			}
			f := findingsOf(t, k.Roots(), func(f *config.File) {
				f.Memory.ReservePercent, f.Memory.ReserveAmount = 0, 1<<30
				if tt.edit != nil {
					tt.edit(f)
				}
			})["limits of all jobs"]
			if f.Status != tt.status || !strings.Contains(f.Found, tt.want) {
				t.Errorf("%s: %s; want %s: %s", f.Status, f.Found, tt.status, tt.want)
			}
		})
	}
}

// Without a job of hookhost the limits may be those of pbs_cgroups. Users cannot find out.
func TestLimitsOfAllJobsWithoutAJobOfHookhost(t *testing.T) {
	k := kernfstest.NewV2()
	passDown(t, k.Roots(), "memory", "cpuset", "pids")
	tree, err := cgroup.Detect(k.Roots(), cgroup.Options{Signal: k.Signal})
	must.NoError(t, err)
	must.NoError(t, tree.Prepare())
	must.NoError(t, k.Roots().Cgroup.Mkdir("pbs_jobs.service/jobs/9.srv"))
	f := findingsOf(t, k.Roots(), func(*config.File) {})["limits of all jobs"]
	must.Equal(t, f.Found, OK, f.Status)
	k.Fail("open", "pbs_jobs.service/jobs", unix.EACCES)
	f = findingsOf(t, k.Roots(), func(*config.File) {})["limits of all jobs"]
	must.Equal(t, f.Found, Unknown, f.Status)
}
