package main

import (
	"fmt"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/inventory"
)

// assignment holds a job's share of this host.
type assignment struct {
	limits cgroup.Limits
	allMem bool             // the job asked for no mem, and its limit is all the memory for jobs
	ask    ask              // as decided: a job with blocks asks for their contents
	grant  *inventory.Grant // nil if it asked for no devices
	notes  []string         // for the report: requests that are not enforced
}

// usage returns the report of a job with this assignment that has used nothing yet.
func (got assignment) usage(there host) *hostapi.HostUsage {
	cpus, mems := got.limits.CPUs, got.limits.Mems
	if cpus.IsEmpty() {
		cpus, mems = there.cpus, there.mems
	}
	return &hostapi.HostUsage{
		CPUs: cpus.String(), Mems: mems.String(), NCPUs: got.ask.NCPUs, MemLimitBytes: got.limits.Mem,
	}
}

// assign decides a job's share of this host from its request and the shares of the other jobs. It
// reads and writes nothing. The kind of an error is KindJob if the host could never give that much,
// and KindBusy if other jobs are in the way.
func (p *policy) assign(h host, a ask, others []holding) (assignment, error) {
	blocks, err := p.decideBlocks(h, &a, others)
	if err != nil {
		return assignment{}, err
	}
	got := assignment{ask: a, notes: a.notes}
	devices, err := p.decideCPUs(&got.limits, h, a, blocks, others)
	if err != nil {
		return assignment{}, err
	}
	if got.grant, err = a.grant(h, devices, blocks); err != nil {
		return assignment{}, err
	}
	for _, r := range resources {
		if r.decide == nil {
			continue
		}
		if err := r.decide(p, &got, h, others); err != nil {
			return assignment{}, err
		}
	}
	return got, nil
}

// heldBy names the jobs that hold cpus, or devices of the resource. It is for people who wonder why
// their job has to wait.
func heldBy(resource string, others []holding) string {
	var who []string
	for _, o := range others {
		if what := o.holds(resource); what != "" {
			who = append(who, fmt.Sprintf("%s by job %s", what, o.id))
		}
	}
	if len(who) == 0 {
		return ""
	}
	if len(who) > 8 {
		who = append(who[:8], fmt.Sprintf("and %d more", len(who)-8))
	}
	return "; held: " + strings.Join(who, ", ")
}
