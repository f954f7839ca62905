package main

import (
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
)

// resource is something that jobs are limited to on a host. To add one, put a value of this type in
// a new file and a line in resources. A nil field means that there is nothing to do.
type resource struct {
	// ask reads what the job asks for. An error is the job's fault.
	ask func(a *ask, job *hostapi.Job) error
	// offer reads what all jobs together may have.
	offer func(h *hook, there *host) error
	// decide sets the job's limits, given what the other jobs hold. It has no other effect.
	decide func(p *policy, l *cgroup.Limits, h host, a ask, others []holding) error
	// unenforced returns a note for each request for which the job has no limit.
	unenforced func(p *policy, l cgroup.Limits, h host, a ask) []string
	// parent sets the limits of all jobs together, given what they hold.
	parent func(p *policy, l *cgroup.Limits, h host, jobs []holding)
}

// resources are in the order in which they are decided. A limit of memory and swap follows from
// that of memory.
var resources = []*resource{
	&cpusetResource, &memoryResource, &memswResource, &pidsResource, &hugetlbResource, &gpuResource, &oomResource,
	&cpuResource, &ioResource, &pmemResource, &rlimitResource,
}

// unenforced is the note about a request for which this host has no limit.
func unenforced(what, section string, enabled bool) string {
	why := "this kernel cannot"
	if !enabled {
		why = "[" + section + "] is not enabled on this host"
	}
	return fmt.Sprintf("%s is not enforced: %s", what, why)
}
