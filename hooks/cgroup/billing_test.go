package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// after makes the host say that the job has run for so long.
func after(elapsed time.Duration) func(*hostapi.Request) {
	return func(req *hostapi.Request) {
		if req.Job != nil {
			req.Job.Elapsed = elapsed
		}
		for _, job := range req.JobList {
			job.Elapsed = elapsed
		}
	}
}

// periodic returns the hook's report on a job that has run for elapsed, and keeps its state.
func (n *node) periodic(id string, elapsed time.Duration) *hostapi.JobUpdate {
	n.t.Helper()
	u := n.do(hostapi.EventPeriodic, "", after(elapsed)).Jobs[id]
	if u == nil {
		n.t.Fatalf("periodic: nothing of job %s", id)
	}
	if u.State != nil {
		n.jobs[id].State = u.State
	}
	return u
}

func TestJobIsBilledByWhatItHeldAtEachTime(t *testing.T) {
	weights := func(c *config.File) {
		c.Billing.Weights = map[string]float64{"ncpus": 1, "mem": 0.5}
		c.Billing.ResourcesUsed = true
	}
	onFakes(t, weights, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		const id = "1.srv"
		n.begin(id, asks("ncpus=1", "mem=1gb"), func(req *hostapi.Request) { req.Job.MotherSuperior = true })
		n.launch(id)
		must.Equal(t, "after an hour", 1.5, *n.periodic(id, time.Hour).Usage.Billing)
		n.restart()
		must.Equal(t, "after two hours and a restart", 3.0, *n.periodic(id, 2*time.Hour).Usage.Billing)

		n.jobs[id].Elapsed = 4 * time.Hour
		_, err := n.resize(id, "ncpus=3", "mem=2gb") // 1.5 units an hour so far, 4 from here on
		must.NoError(t, err)
		u := n.periodic(id, 5*time.Hour)
		must.Equal(t, "an hour after a resize", 10.0, *u.Usage.Billing)
		must.Equal(t, "resources_used.billing", "10.000000", u.ResourcesUsed["billing"])

		out := n.do(hostapi.EventEpilogue, id, after(6*time.Hour))
		must.Equal(t, "at the end", 14.0, *out.Usage.Billing)
		must.Equal(t, "resources_used.billing", "14.000000", out.ResourcesUsed["billing"])
		n.do(hostapi.EventEnd, id)
	})
}

func TestMotherSuperiorBillsAJobForAllItsHosts(t *testing.T) {
	weights := func(c *config.File) { c.Billing.Weights = map[string]float64{"ncpus": 1, "fpga": 10} }
	onFakes(t, weights, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		for id, head := range map[string]bool{"1.srv": true, "2.srv": false} {
			n.begin(id, asks("ncpus=1", "mem=1gb"), func(req *hostapi.Request) {
				req.Job.MotherSuperior = head
				req.Job.ExecVnode = "(" + testNode + ":ncpus=1:mem=1gb)" +
					"+(n8:ncpus=2:fpga=1)+(n8[1]:ncpus=4)+(n9:ncpus=8)"
			})
			n.launch(id)
		}
		must.Equal(t, "two hours", 50.0, *n.periodic("1.srv", 2*time.Hour).Usage.Billing)
		if u := n.periodic("2.srv", 2*time.Hour).Usage; u.Billing != nil {
			t.Errorf("a sister bills %v", *u.Billing)
		}
		for _, id := range []string{"1.srv", "2.srv"} {
			n.do(hostapi.EventEnd, id)
		}
	})
}

func TestJobThatAsksForInfinityIsBilledForTheRest(t *testing.T) {
	weights := func(c *config.File) { c.Billing.Weights = map[string]float64{"ncpus": 1, "fpga": 1} }
	onFakes(t, weights, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		const id = "1.srv"
		n.begin(id, asks("ncpus=1"), func(req *hostapi.Request) {
			req.Job.MotherSuperior = true
			req.Job.ExecVnode = "(" + testNode + ":ncpus=1:mem=1gb:fpga=inf)"
		})
		n.launch(id)
		if billed := *n.periodic(id, time.Hour).Usage.Billing; billed != 1 {
			t.Errorf("billed by %v", billed)
		}
		n.do(hostapi.EventEnd, id)
	})
}

func TestJobWithoutWeightsHasNoBilling(t *testing.T) {
	onFakes(t, nil, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		n.begin("1.srv")
		n.launch("1.srv")
		u := n.periodic("1.srv", time.Hour)
		if u.Usage.Billing != nil || u.Usage.EnergyJoules != nil || u.CallAgain != 0 {
			t.Errorf("periodic: %+v, called again in %v", u.Usage, u.CallAgain)
		}
		n.do(hostapi.EventEnd, "1.srv")
	})
}

func TestJobHasThePartOfTheEnergyThatItsCPUsAre(t *testing.T) {
	root := t.TempDir()
	zone := filepath.Join(root, "devices/virtual/powercap/intel-rapl/intel-rapl:0")
	must.NoError(t, os.MkdirAll(zone, 0o755))
	set := func(file, text string) {
		must.NoError(t, os.WriteFile(filepath.Join(zone, file), []byte(text+"\n"), 0o644))
	}
	set("name", "package-0")
	set("max_energy_range_uj", "262143328850")
	set("energy_uj", "0")
	sys, err := kernfs.Open(root)
	must.NoError(t, err)
	onFakes(t, func(c *config.File) { c.Billing.Energy = true }, func(t *testing.T, n *node, _ *kernfstest.Kernel) {
		const id = "1.srv" // one of four cpus
		set("energy_uj", "0")
		measured := func() {
			n.roots.Sys = sys
			n.openMeter()
		}
		measured()
		n.begin(id)
		n.launch(id)
		set("energy_uj", "400000004")
		u := n.periodic(id, time.Minute)
		must.Equal(t, "between two beats", 0.0, *u.Usage.EnergyJoules)
		n.with(id, func(e *job) { e.counted.at = e.counted.at.Add(-energyBeat) })
		u = n.periodic(id, time.Minute)
		must.Equal(t, "joules", 100.0, *u.Usage.EnergyJoules)
		set("energy_uj", "404000004")
		must.Equal(t, "before the next beat", 100.0, *n.periodic(id, time.Minute).Usage.EnergyJoules)
		must.Equal(t, "next count", energyBeat, u.CallAgain)
		n.restart()
		measured()
		must.Equal(t, "after a restart", 100.0, *n.periodic(id, time.Minute).Usage.EnergyJoules)
		set("energy_uj", "444000000")
		must.Equal(t, "at the end", 110.0, *n.do(hostapi.EventEpilogue, id).Usage.EnergyJoules)
		set("energy_uj", "484000000")
		must.Equal(t, "the epilogue again", 110.0, *n.do(hostapi.EventEpilogue, id).Usage.EnergyJoules)
		n.do(hostapi.EventEnd, id)

		n.begin("2.srv")
		must.NoError(t, os.Remove(filepath.Join(zone, "energy_uj"))) // its driver was unloaded
		n.do(hostapi.EventEpilogue, "2.srv")
		n.do(hostapi.EventEnd, "2.srv")
		if len(n.table) > 0 {
			t.Errorf("kept of ended jobs: %v", n.table)
		}
	})
}
