package cgroup

import (
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// docs/openpbs-reference.md promises these paths to other programs.
func TestDevicesAt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		boot   func(...kernfstest.Option) *kernfstest.Kernel
		mode   Mode
		v2, v1 string
	}{
		{"v1", kernfstest.NewV1, 0, "", "/sys/fs/cgroup/devices/pbs_jobs.service/jobid/12.srv"},
		{"hybrid", kernfstest.NewHybrid, 0, "/sys/fs/cgroup/unified/pbs_jobs.service/jobs/12.srv", ""},
		{"hybrid, of which v1 alone is taken", kernfstest.NewHybrid, ModeV1, "",
			"/sys/fs/cgroup/devices/pbs_jobs.service/jobid/12.srv"},
		{"v2", kernfstest.NewV2, 0, "/sys/fs/cgroup/pbs_jobs.service/jobs/12.srv", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree, err := Detect(tt.boot().Roots(), Options{Mode: tt.mode})
			must.NoError(t, err)
			j, err := tree.Job("12.srv")
			must.NoError(t, err)
			v2, v1 := j.DevicesAt()
			at := ""
			if v1 != nil {
				at = v1.Path(".")
			}
			if v2 != tt.v2 || at != tt.v1 {
				t.Errorf("v2 %q, v1 %q, want %q and %q", v2, at, tt.v2, tt.v1)
			}
		})
	}
}
