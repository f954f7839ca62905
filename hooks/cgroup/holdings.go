package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/inventory"
)

// holding is what another job holds on this host.
type holding struct {
	id     string
	job    *cgroup.Job
	limits cgroup.Limits

	mem, vmem bool           // asked for all there is, which otherwise is taken for what a job without a request gets
	pages     map[int64]bool // likewise, by size of huge pages

	grant *inventory.Grant // nil when it has no devices; known only where somebody asks for some
}

// holds names what the job holds of a resource: "nvidia0,nvidia3"; of blocks all that makes one not
// free.
func (o holding) holds(resource string) string {
	var names []string
	if cpus := o.limits.CPUs; (resource == "blocks" || resource == "ncpus") && !cpus.IsEmpty() {
		text := "cpu " + cpus.String()
		if cpus.Len() > 1 {
			text = "cpus " + cpus.String()
		}
		names = append(names, text)
	}
	if o.grant != nil {
		for _, d := range o.grant.Devices {
			if resource == "blocks" || d.Resource == resource {
				names = append(names, nameOf(d))
			}
		}
		if resource == "blocks" && len(names) == 0 {
			for _, b := range o.grant.Blocks {
				names = append(names, fmt.Sprintf("block %d", b))
			}
		}
	}
	return strings.Join(names, ",")
}

// holding returns the controllers whose limits are what a job holds of the node.
func (p *policy) holding() []string {
	if p.Hugetlb.Enabled {
		return []string{"cpuset", "memory", "hugetlb"}
	}
	return []string{"cpuset", "memory"}
}

// holdings reads what each of the jobs holds. A job that goes away meanwhile holds nothing.
func (h *hook) holdings(ids []string) ([]holding, error) {
	var held []holding
	controllers := h.policy.holding()
	for _, id := range ids {
		j, err := h.tree.Job(id)
		if err != nil {
			return nil, err
		}
		l, err := j.Limits(controllers...)
		if errors.Is(err, cgroup.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		o := holding{id: id, job: j, limits: promised(l)}
		h.policy.fillRequested(&o, h.node())
		h.with(id, func(e *job) {
			if e.resizing != nil {
				o = o.or(*e.resizing)
			}
		})
		held = append(held, o)
	}
	return held, nil
}

// holdingsBeside returns what the job holds and what all others hold. own is the zero holding where
// the job has no cgroup. The caller has the tree's lock.
func (h *hook) holdingsBeside(id string) (own holding, others []holding, err error) {
	ids, err := h.tree.JobIDs(h.policy.holding()...)
	if err != nil {
		return own, nil, err
	}
	others, err = h.holdings(ids)
	if i := slices.IndexFunc(others, func(o holding) bool { return o.id == id }); i >= 0 {
		own = others[i] // before Delete moves the others
		others = slices.Delete(others, i, i+1)
	}
	return own, others, err
}

// coming is what a job is to hold that has been given this.
func (h *hook) coming(got assignment) holding {
	o := holding{limits: promised(h.inKernel(got.limits, got.ask))}
	h.policy.promise(&o, got.ask, &got.limits)
	return o
}

// or returns what a job holds that holds o and is to hold p, or holds either.
func (o holding) or(p holding) holding {
	larger := func(n **int64, other *int64) {
		if *n == nil || other != nil && *other > **n {
			*n = other
		}
	}
	larger(&o.limits.Mem, p.limits.Mem)
	larger(&o.limits.MemSwap, p.limits.MemSwap)
	o.limits.CPUs, o.limits.Mems = o.limits.CPUs.Union(p.limits.CPUs), o.limits.Mems.Union(p.limits.Mems)
	o.limits.Hugetlb = maps.Clone(o.limits.Hugetlb)
	for size, n := range p.limits.Hugetlb {
		if o.limits.Hugetlb == nil {
			o.limits.Hugetlb = map[int64]int64{}
		}
		o.limits.Hugetlb[size] = max(n, o.limits.Hugetlb[size])
	}
	o.mem, o.vmem = o.mem || p.mem, o.vmem || p.vmem
	return o
}

// assign decides what a job gets beside others. If there is not enough, jobs that are over make
// room, and after them those that are suspended.
func (h *hook) assign(there host, a ask, others []holding) (got assignment, err error) {
	got, err = h.policy.assign(there, a, others)
	if hostapi.KindOf(err) != hostapi.KindBusy {
		return got, err
	}
	var alive, awake []holding
	for _, o := range others {
		if h.phaseOf(o.id) == hostapi.PhaseExiting && isEmpty(o.job) {
			continue
		}
		alive = append(alive, o)
		if h.suspended(o.job) {
			o = h.policy.frozen(o)
		}
		awake = append(awake, o)
	}
	for _, fewer := range [][]holding{alive, awake} {
		if hostapi.KindOf(err) == hostapi.KindBusy {
			got, err = h.policy.assign(there, a, fewer)
		}
	}
	return got, err
}

// frozen is what a suspended job holds when its place is given to others. Its devices are not: its
// processes have them open, with their data in the devices' own memory, and will go on with that.
func (p *policy) frozen(o holding) holding {
	o.limits = cgroup.Limits{}
	if o.grant != nil && len(o.grant.Blocks) > 0 { // whose devices it keeps
		g := *o.grant
		g.Blocks, o.grant = nil, &g
	}
	return o
}

// isEmpty reports whether a job that is over holds nothing any more. PBS gives its place away after
// epilogue, and may send its end after another job's begin.
func isEmpty(j *cgroup.Job) bool {
	pids, err := j.Processes()
	return errors.Is(err, cgroup.ErrNotFound) || err == nil && len(pids) == 0
}
