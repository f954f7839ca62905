package doctor

import (
	"slices"
	"testing"

	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/plugin"
)

func TestErrorsThatLeaveJobsUnconfinedAreReported(t *testing.T) {
	n := nodeWith(t, config.Default())
	r, err := n.Hooks()
	must.NoError(t, err)
	a := plugin.DefaultAttributes()
	a.OnAlarm, a.OnDefect = plugin.BlameNothing, plugin.BlameNothing
	r.BuiltIn = []plugin.Hook{
		{Name: "cgroup", Attributes: a, BuiltIn: true, Program: "/bin/true"},
		{Name: "mpi", Attributes: a, BuiltIn: true, Program: "/bin/true"},
	}
	want := []Finding{
		degraded("hook cgroup", "on_alarm, on_defect: nothing: after such an error jobs run unconfined",
			"hookhost hook set cgroup on_alarm=job on_defect=job"),
		ok("hook mpi", "/bin/true"),
	}
	if got := n.examineHooks(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
