package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/proc"
)

// rlimitPrefix starts the names of resources that request resource limits: -l rlimit_nofile=N or
// N:M. PBS accepts such a request only if the administrator has defined the resource.
const rlimitPrefix = "rlimit_"

var rlimitResource = resource{
	ask: func(a *ask, job *hostapi.Job) (err error) { a.rlimits, err = rlimitsOf(job); return err },
}

// rlimitsOf returns the limits that the job itself requests, by name. PBS passes on unknown names
// like any others, so they are an error here.
func rlimitsOf(job *hostapi.Job) (map[string]proc.Rlimit, error) {
	var asked map[string]proc.Rlimit
	for _, resource := range slices.Sorted(maps.Keys(job.ResourceList)) {
		name, ok := strings.CutPrefix(resource, rlimitPrefix)
		if !ok {
			continue
		}
		if _, known := (config.Rlimits{}).ByName()[name]; !known {
			return nil, fmt.Errorf("resource_list %s: no such limit", resource)
		}
		soft, hard, err := config.ParseRlimit(job.ResourceList[resource])
		if err != nil {
			return nil, fmt.Errorf("resource_list %s: %w", resource, err)
		}
		if asked == nil {
			asked = map[string]proc.Rlimit{}
		}
		asked[name] = proc.Rlimit{Soft: soft, Hard: hard}
	}
	return asked, nil
}

// rlimits decides the limits of a job's processes: the node's limits, replaced by those that the
// job requests, and RLIMIT_AS. KindJob means that the job requests more than the node's hard limit.
//
// If vmem is enforced, RLIMIT_AS is pvmem or unlimited (openpbs pbs_cgroups.PY, manage_rlimit_as).
// MoM sets it to vmem, which kills programs that reserve address space without using it.
func (p *policy) rlimits(a ask, vmemEnforced bool) (map[string]proc.Rlimit, error) {
	limits := map[string]proc.Rlimit{}
	for name, text := range p.Rlimits.ByName() {
		if text == "" {
			continue
		}
		soft, hard, err := config.ParseRlimit(text)
		if err != nil {
			return nil, hostapi.Errorf(hostapi.KindNode, "rlimits.%s: %w", name, err)
		}
		limits[name] = proc.Rlimit{Soft: soft, Hard: hard}
	}
	for name, asked := range a.rlimits {
		if node, ok := limits[name]; ok && asked.Hard > node.Hard {
			return nil, beyond("%s%s requested (%s) exceeds this host's limit (%s)", rlimitPrefix, name,
				rlimitText(asked.Hard), rlimitText(node.Hard))
		}
		limits[name] = asked
	}
	switch {
	case !p.Memory.ManageRlimitAS:
	case a.pvmem > 0:
		limits["as"] = proc.Rlimit{Soft: uint64(a.pvmem), Hard: uint64(a.pvmem)}
	case vmemEnforced:
		limits["as"] = proc.Rlimit{Soft: proc.RlimitInfinity, Hard: proc.RlimitInfinity}
	}
	return limits, nil
}

func rlimitText(n uint64) string {
	if n == proc.RlimitInfinity {
		return "unlimited"
	}
	return fmt.Sprint(n)
}

// launchLimits returns the job's request and the limits of programs that MoM starts.
func (h *hook) launchLimits(req *hostapi.Request) (a ask, limits map[string]proc.Rlimit, err error) {
	if a, err = askFor(req); err == nil {
		limits, err = h.limitsOf(a)
	}
	return a, limits, err
}

// limitsOf returns the limits of programs that a job with this request launches. A request for more
// open files than the kernel allows anyone (fs.nr_open) is KindJob.
func (h *hook) limitsOf(a ask) (map[string]proc.Rlimit, error) {
	if asked, ok := a.rlimits["nofile"]; ok {
		b, err := h.roots.Proc.ReadFile("sys/fs/nr_open")
		if most, perr := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64); err == nil && perr == nil &&
			asked.Hard > most {
			return nil, beyond("%snofile requested (%s) exceeds the kernel's maximum (%d)", rlimitPrefix,
				rlimitText(asked.Hard), most)
		}
	}
	return h.policy.rlimits(a, h.liftsAS())
}

// liftsAS reports whether RLIMIT_AS is lifted, which is the case if vmem is enforced.
func (h *hook) liftsAS() bool {
	return h.policy.Memory.ManageRlimitAS && h.policy.Memsw.Enabled && h.tree.Has("memsw")
}

// limit sets limits on a process of the job, unless the process is gone. It is not an error if
// RLIMIT_AS cannot be lifted, because the job only gets less than it could. Launch reports it. Only
// limits from the node's configuration may exceed the current limits of the process. The job's
// request comes from its user, and PBS may not even know such a resource.
func (h *hook) limit(j *cgroup.Job, id hostapi.ProcessID, limits map[string]proc.Rlimit) error {
	set := func(limits map[string]proc.Rlimit) error {
		err := h.setRlimits(h.roots.Proc, id, limits, h.raises)
		if errors.Is(err, proc.ErrGone) {
			return nil
		}
		return err
	}
	if as, ok := limits["as"]; ok && as.Hard == proc.RlimitInfinity {
		if err := set(map[string]proc.Rlimit{"as": as}); err != nil {
			h.logOf(j.ID()).Warn(err)
			h.with(j.ID(), func(e *job) { e.asStays = true })
		}
		limits = maps.Clone(limits)
		delete(limits, "as")
	}
	return set(limits)
}

// asStays informs the job's owner that RLIMIT_AS could not be lifted. The log has the cause.
const asStays = "RLIMIT_AS (ulimit -v) could not be lifted on this host: a program that reserves more address space " +
	"fails, whether it uses it or not"

// raises reports whether the node may raise a limit. It may if its configuration sets the limit, or
// if vmem replaces the limit.
func (h *hook) raises(name string) bool {
	return h.policy.Rlimits.ByName()[name] != "" || name == "as" && h.liftsAS()
}
