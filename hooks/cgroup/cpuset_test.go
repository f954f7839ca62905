package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
)

// excluding is a configuration that excludes these cpus.
func excluding(cpus string) func(*config.File) {
	return func(f *config.File) { f.Cpuset.ExcludeCPUs = cpus }
}

// runsOn checks on which cpus a process may run.
func (n *node) runsOn(when string, pid int, cpus string) {
	n.t.Helper()
	b, err := n.roots.Proc.ReadFile(fmt.Sprintf("%d/status", pid))
	must.NoError(n.t, err)
	if !strings.Contains(string(b), "Cpus_allowed_list:\t"+cpus+"\n") {
		n.t.Errorf("%s, process %d does not run on cpus %s: %s", when, pid, cpus, b)
	}
}

// No job runs on an excluded cpu, not even one without cpus. PBS is told about the others.
func TestNoJobRunsOnExcludedCpus(t *testing.T) {
	onFakes(t, excluding("0,4"), func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		there, err := n.survey()
		must.NoError(t, err)
		must.Equal(t, "ncpus for PBS", 3, n.policy.offer(there).ncpus)
		out := n.begin("1.srv", asks("ncpus=0"))
		must.Equal(t, "cpus in the report", "1-3,5-7", out.Usage.CPUs)
		n.runsOn("without cpus", n.launch("1.srv"), "1-3,5-7")
		n.begin("2.srv", asks("ncpus=3"))
		n.runsOn("with all cpus for jobs", n.launch("2.srv"), "1-3")
		kind, text := refusal(n.event(hostapi.EventBegin, "3.srv", asks("ncpus=4")))
		if kind != kindHeld || !strings.Contains(text, "exceeds ncpus available (3)") {
			t.Errorf("a job that needs an excluded cpu: %s: %s", kind, text)
		}
	})
}

// A job keeps cpus that are excluded after its begin, also one that began before hookhost was
// installed. Until it ends, jobs without cpus run on them too. Other jobs do not get them.
func TestJobKeepsCpusThatAreExcludedLater(t *testing.T) {
	exclude := func(cpus string) func(*policy) { return func(p *policy) { excluding(cpus)(&p.File) } }
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=1", "mem=1gb"))
		n.begin("2.srv", asks("ncpus=0"))
		one, none := n.launch("1.srv"), n.launch("2.srv")
		n.runsOn("at first", one, "0")
		n.runsOn("at first", none, "0-7")
		unmarked := n.limits("3")
		unmarked.Mems = n.limitsNow("1.srv").Mems
		must.NoError(t, n.cgroup("3.srv").Create(unmarked))
		n.jobs["3.srv"] = n.job("3.srv")

		n.startAndSettle(exclude("0,3-4"))
		n.runsOn("after a reload", one, "0")
		n.runsOn("after a reload", none, "0-3,5-7")
		must.Equal(t, "cpus of a job of pbs_cgroups", "3", n.limitsNow("3.srv").CPUs.String())
		n.begin("4.srv", asks("ncpus=1", "mem=1gb"))
		n.runsOn("begun later", n.launch("4.srv"), "1")
		n.do(hostapi.EventResize, "1.srv", asks("ncpus=1", "mem=2gb"))
		n.runsOn("resized", one, "2")

		n.do(hostapi.EventEnd, "3.srv")
		n.do(hostapi.EventPeriodic, "")
		n.runsOn("when nobody holds them", none, "1-2,5-7")
		n.startAndSettle(exclude("0"))
		n.runsOn("when fewer are excluded", none, "1-7")
		n.startAndSettle(exclude(""))
		n.runsOn("when none is excluded", none, "0-7")
	})
}

// An empty cpuset of all jobs would mean all cpus, and a memory limit of 0 no process. A host that
// has nothing for jobs refuses them and says why.
func TestHostWithoutAnythingForJobsRefusesThem(t *testing.T) {
	for _, tt := range []struct {
		edit func(*config.File)
		text string
	}{
		{excluding("0-7"), "all cpus of this host are in exclude_cpus of [cpuset]"},
		{func(f *config.File) { f.Memory.ReserveAmount = pbs.Size(1 << 50) }, "all memory of this host is reserved"},
	} {
		onFakes(t, tt.edit, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
			for _, ncpus := range []string{"ncpus=0", "ncpus=1"} {
				kind, text := refusal(n.event(hostapi.EventBegin, "1.srv", asks(ncpus)))
				if kind != kindHeld || !strings.Contains(text, tt.text) {
					t.Errorf("%s: %s: %q; want %q", ncpus, kind, text, tt.text)
				}
			}
		})
	}
}
