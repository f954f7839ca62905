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

// holding holds a job's share of this host.
type holding struct {
	id     string
	job    *cgroup.Job
	limits cgroup.Limits    // as decided, except limits that reserve nothing
	grant  *inventory.Grant // nil without devices
	unread bool             // its grant could not be read; see readDevices
}

// holds names the job's part of a resource, for example "nvidia0,nvidia3". For blocks it names
// everything that makes a block unavailable.
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

// holdings returns what each job holds, according to the table. The caller holds the lock.
func (h *hook) holdings(there host) ([]holding, error) {
	if err := h.fill(); err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "survey cgroups: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var held []holding
	for _, id := range slices.Sorted(maps.Keys(h.table)) {
		e := h.table[id]
		if e.assigned == nil {
			continue
		}
		o := h.policy.holdingOf(there, *e.assigned)
		if e.growing != nil {
			o = o.or(h.policy.holdingOf(there, *e.growing))
		}
		o.id, o.job, o.unread = id, e.cgroup, e.unread
		held = append(held, o)
	}
	return held, nil
}

// holdingsBeside returns the job's own holding and those of all other jobs. own is zero if the job
// holds nothing. The caller holds the lock.
func (h *hook) holdingsBeside(id string, there host) (own holding, others []holding, err error) {
	others, err = h.holdings(there)
	if i := slices.IndexFunc(others, func(o holding) bool { return o.id == id }); i >= 0 {
		own = others[i] // copied before Delete moves the others
		others = slices.Delete(others, i, i+1)
	}
	return own, others, err
}

// holdingOf returns what a job with this assignment holds. If the job requested no mem and its
// limit is all the memory for jobs, its mem does not count. The same goes for swap and huge pages.
func (p *policy) holdingOf(there host, got assignment) holding {
	o := holding{limits: got.limits, grant: got.grant}
	if got.allMem {
		o.limits.Mem = nil
	}
	if n := o.limits.MemSwap; n != nil && got.ask.Vmem == nil &&
		(got.allMem || *n >= p.memTotal(there.node)+p.swapTotal(there.node)) {
		o.limits.MemSwap = o.limits.Mem
	}
	o.limits.Hugetlb = p.hugeHeld(there, got.limits, got.ask)
	return o
}

// or returns the larger of o and p for each resource: the holding of a job that is being resized.
func (o holding) or(p holding) holding {
	larger := func(n **int64, other *int64) {
		if *n == nil || other != nil && *other > **n {
			*n = other
		}
	}
	o.grant = both(o.grant, p.grant)
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
	return o
}

// sum adds up one limit over the jobs.
func sum(jobs []holding, limit func(l cgroup.Limits) *int64) (held int64) {
	for _, o := range jobs {
		if n := limit(o.limits); n != nil {
			held += *n
		}
	}
	return held
}

func onlyMem(l cgroup.Limits) *int64    { return l.Mem }
func memAndSwap(l cgroup.Limits) *int64 { return l.MemSwap }

// assignBeside decides a job's share, given those of the others. If there is not enough left, it
// disregards jobs that have ended, and then also suspended ones.
func (h *hook) assignBeside(there host, a ask, others []holding) (got assignment, err error) {
	got, err = h.policy.assign(there, a, others)
	if hostapi.KindOf(err) != hostapi.KindBusy {
		return got, err
	}
	var alive, awake []holding
	for _, o := range others {
		if h.snapshot(o.id).phase == hostapi.PhaseExiting && isEmpty(o.job) {
			continue
		}
		alive = append(alive, o)
		if h.suspended(o.job) {
			o = frozen(o)
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

// frozen returns the holding of a suspended job whose place was given to others. It keeps its
// devices. Its processes have them open, with data in the devices' memory, and need them when they
// resume.
func frozen(o holding) holding {
	o.limits = cgroup.Limits{}
	if o.grant != nil && len(o.grant.Blocks) > 0 { // the job keeps the devices in them
		g := *o.grant
		g.Blocks, o.grant = nil, &g
	}
	return o
}

// isEmpty reports whether a job that has ended has no processes left. PBS reuses the job's
// resources after epilogue, and may send its end after another job's begin.
func isEmpty(j *cgroup.Job) bool {
	pids, err := j.Processes()
	return errors.Is(err, cgroup.ErrNotFound) || err == nil && len(pids) == 0
}
