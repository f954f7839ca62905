package main

import (
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
)

// resource is something that jobs are limited to on a host. To add one, put a value of this type in
// a new file and a line in resources. A nil field means that there is nothing to do.
type resource struct {
	// ask adds the requests that events after begin need as well. decide reads those that only it
	// needs from ask.list. An error is the job's fault.
	ask func(a *ask, job *hostapi.Job) error
	// offer reads the amount for all jobs together.
	offer func(h *hook, there *host) error
	// decide sets the job's limits, given the holdings of the other jobs, and notes a request that
	// is not enforced. It has no other effect.
	decide func(p *policy, got *assignment, h host, others []holding) error
	// parent sets the limits of all jobs together, given their holdings.
	parent func(p *policy, l *cgroup.Limits, h host, jobs []holding)
}

// resources are in the order in which they are decided. The limit of memory and swap depends on the
// limit of memory.
var resources = []*resource{
	&cpusetResource, &memoryResource, &memswResource, &pidsResource, &hugetlbResource, &gpuResource, &oomResource,
	&cpuResource, &ioResource, &pmemResource, &rlimitResource,
}

// noteUnenforced notes a request for which this host has no limit.
func (got *assignment) noteUnenforced(what, section string, enabled bool) {
	why := "this kernel cannot"
	if !enabled {
		why = "[" + section + "] is not enabled on this host"
	}
	got.notes = append(got.notes, fmt.Sprintf("%s is not enforced: %s", what, why))
}
