package main

import (
	"cmp"
	"errors"
	"math"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/rapl"
	"github.com/hookhost/hookhost/internal/usage"
)

// account records what a job has been billed for so far. The host stores it with the rest of the
// hook's state.
type account struct {
	Joules   float64       `json:"joules,omitempty"`
	Billed   float64       `json:"billed,omitempty"`       // units
	BilledTo time.Duration `json:"billed_to_ns,omitempty"` // the elapsed time that Billed covers
}

// energyBeat is how often the energy of a live job is counted, however often it is asked for.
// Frequent readings would reveal what other programs compute (CVE-2020-8694). The processor's
// counters can wrap around within a quarter of an hour.
const energyBeat = 5 * time.Minute

// reading is a reading of the meter, with its time.
type reading struct {
	joules float64
	at     time.Time
}

// openMeter opens the node's energy counters if energy billing is enabled. A node without counters
// reports no energy.
func (h *hook) openMeter() {
	if !h.policy.Billing.Energy {
		return
	}
	meter, err := rapl.Open(h.roots.Sys)
	if err != nil {
		h.log.Warnf("[billing] energy: %v", err)
		return
	}
	h.meter, h.cpus = meter, h.policy.countCPUs(host{node: h.node()}, h.policy.Cpuset.Left(h.node().Online))
}

// bill updates the account in s and copies it to u. The mark in s says what the job has held since
// the last count. An amount that cannot be read now is counted later.
//
// The mother superior bills the job for all its hosts, because a sister may not know how long the
// job has run. If now is set, energy is counted up to now, otherwise up to the last beat. Energy
// is reported in whole joules.
func (h *hook) bill(s *state, job *hostapi.Job, u *hostapi.HostUsage, now bool) error {
	var errs []error
	if len(h.policy.Billing.Weights) > 0 && s.Begin != nil && s.Begin.Job.MotherSuperior {
		rate, err := h.billingRate(s.Begin, job)
		if err == nil && job.Elapsed > s.BilledTo {
			s.Billed += rate * (job.Elapsed - s.BilledTo).Hours()
			s.BilledTo = job.Elapsed
		}
		errs = append(errs, err)
		billed := s.Billed
		u.Billing = &billed
	}
	if h.meter != nil {
		if !s.Ended {
			errs = append(errs, h.addEnergy(s, job.ID, now))
		}
		joules := math.Round(s.Joules)
		u.EnergyJoules = &joules
	}
	return errors.Join(errs...)
}

// billingRate returns the units per hour for what the job holds on all its hosts. The mark of a job
// on thousands of hosts has no room for its exec_vnode, so job supplies it.
func (h *hook) billingRate(begin *hostapi.Request, job *hostapi.Job) (float64, error) {
	holder := *begin.Job
	holder.ExecVnode = cmp.Or(holder.ExecVnode, job.ExecVnode)
	holder.ExecHost2 = cmp.Or(holder.ExecHost2, job.ExecHost2)
	a, err := askOf(&holder, begin.Node)
	if err != nil {
		return 0, err
	}
	held, err := pbs.Share(a.chunks) // of all hosts
	if err != nil {
		return 0, err
	}
	return usage.BillingRate(h.policy.Billing.Weights, held), nil
}

// addEnergy adds the job's share of the energy used since its last count. It counts at most once
// per beat, or immediately if now is set. The first count by this process only sets the starting
// point.
func (h *hook) addEnergy(s *state, id string, now bool) error {
	before := h.snapshot(id).counted
	if before != nil && !now && time.Since(before.at) < energyBeat {
		return nil
	}
	joules, err := h.meter.Joules()
	if err != nil {
		return err
	}
	h.with(id, func(e *job) { e.counted = &reading{joules, time.Now()} })
	if before != nil && h.cpus > 0 {
		s.Joules += (joules - before.joules) * min(1, float64(s.NCPUs)/float64(h.cpus))
	}
	return nil
}

// soonestCall returns when the host should call again. That is after wanted (0: never), or sooner
// if energy has to be counted before then.
func (h *hook) soonestCall(wanted time.Duration) time.Duration {
	if h.meter == nil || wanted > 0 && wanted < energyBeat {
		return wanted
	}
	return energyBeat
}
