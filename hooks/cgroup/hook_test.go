package main

import (
	"slices"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func TestLifeOnFakes(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) { testLife(t, n) })
}

func TestLifeOnKernel(t *testing.T) { testLife(t, realNode(t, nil)) }

// testLife takes one job through all events, on a fake kernel or on the real one.
func testLife(t *testing.T, n *node) {
	const id = "1.srv"
	out := n.begin(id)
	used := hostapi.Resources{"cput": "00:00:00", "cpupercent": "0", "ncpus": "1"}
	for _, name := range []string{"mem", "vmem"} {
		if n.tree.Has(map[string]string{"mem": "memory", "vmem": "swappeak"}[name]) {
			used[name] = "0kb"
		}
	}
	must.Equal(t, "begin: resources_used", used, out.ResourcesUsed)
	if out.Usage.CPUs == "" || out.Usage.Mems == "" || *out.Usage.MemLimitBytes != 64*mib {
		t.Errorf("begin: usage: %+v", out.Usage)
	}
	n.want(id)

	leader := n.launch(id)
	second := n.start(t, nil)
	n.do(hostapi.EventLaunch, id, withPID(second))
	third := n.start(t, nil)
	n.do(hostapi.EventAttach, id, withPID(third))
	if got := n.attached(id); got != 1 {
		t.Errorf("attach: %d processes attached, want 1", got)
	}
	members := []int{leader, second, third}
	slices.Sort(members) // pids may have wrapped around in between
	must.Equal(t, "processes", members, n.inside(id))
	if s := n.state(id); s.BegunMicros == 0 || s.NCPUs != 1 {
		t.Errorf("state: %+v", s)
	}

	u := n.do(hostapi.EventPeriodic, "").Jobs[id]
	if u == nil || u.Usage.CPUTSeconds == nil || u.Usage.MemBytes == nil || u.Usage.Kill != nil ||
		u.Usage.ProcessesAttached != 1 {
		t.Fatalf("periodic: %+v", u)
	}

	out = n.do(hostapi.EventEpilogue, id)
	if k := out.Usage.Kill; k == nil || k.Signal != "SIGKILL" || k.Stragglers != 3 || k.Seconds <= 0 {
		t.Errorf("epilogue: kill: %+v", k)
	}
	if out.Diag != "" || out.JobStderr != nil || out.Notes != nil {
		t.Errorf("epilogue: %+v", out)
	}
	for name := range used { // the report has exactly what begin has claimed
		if _, told := out.ResourcesUsed[name]; !told {
			t.Errorf("epilogue: resources_used without %s: %v", name, out.ResourcesUsed)
		}
	}
	if len(out.ResourcesUsed) != len(used) {
		t.Errorf("epilogue: resources_used %v, begin said %v", out.ResourcesUsed, used)
	}
	for _, pid := range members {
		if n.lives(pid) {
			t.Errorf("process %d lives after epilogue", pid)
		}
	}
	n.want(id)
	if out := n.do(hostapi.EventEnd, id); out.Usage != nil {
		t.Errorf("end: usage: %+v", out.Usage)
	}
	n.want()
	if len(n.table) != 0 {
		t.Errorf("kept of an ended job: %+v", n.table)
	}
}
