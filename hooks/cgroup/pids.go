package main

import (
	"fmt"
	"strconv"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
)

var pidsResource = resource{
	offer: func(h *hook, there *host) (err error) {
		if h.policy.Pids.Enabled {
			there.tasks, err = h.tasks()
		}
		return err
	},
	decide: (*policy).decidePids,
	parent: func(_ *policy, l *cgroup.Limits, h host, _ []holding) {
		if h.tasks > 0 && h.has("pids") {
			l.Pids = &h.tasks
		}
	},
}

// pidsAsked returns the limit on tasks that a job requests (-l pids=N), or nil.
func pidsAsked(list hostapi.Resources) (*int64, error) {
	v, ok := list["pids"]
	if !ok {
		return nil, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 {
		return nil, hostapi.Errorf(hostapi.KindJob, "resource_list pids=%s: not a number of 1 or more", v)
	}
	return &n, nil
}

// tasks returns how many tasks all jobs together may have, according to [pids] and to the cgroups
// above them. 0 means that no limit is known.
func (h *hook) tasks() (int64, error) {
	total := h.policy.Pids.Left(min(h.node().Tasks, config.MaxPids))
	above, err := h.tree.PidsAbove()
	if err != nil || above == nil {
		return total, err
	}
	if total == 0 {
		return *above, nil
	}
	return min(total, *above), nil
}

func (p *policy) decidePids(got *assignment, h host, _ []holding) error {
	asked, err := pidsAsked(got.ask.list)
	switch {
	case err != nil:
		return err
	case !p.Pids.Enabled || !h.has("pids"):
		if asked != nil {
			got.noteUnenforced(fmt.Sprintf("pids=%d", *asked), "pids", p.Pids.Enabled)
		}
		return nil
	case asked != nil && *asked > config.MaxPids:
		return hostapi.Errorf(hostapi.KindJob, "pids requested (%d) exceeds the kernel's maximum (%d)",
			*asked, config.MaxPids)
	}
	limit := p.Pids.Max
	if limit == config.PidsByCPUs {
		limit = p.tasksOf(h, got.ask)
	}
	if asked != nil && (limit <= 0 || *asked < limit) {
		limit = *asked
	}
	if limit > 0 {
		got.limits.Pids = &limit
	}
	return nil
}

// tasksOf returns how many tasks a job may have according to its cpus. 0 means no limit.
func (p *policy) tasksOf(h host, a ask) int64 {
	switch {
	case h.tasks == 0:
		return 0
	case a.exclhost: // no other job needs tasks
		return h.tasks
	}
	return p.Pids.Part(h.tasks, a.NCPUs, p.countCPUs(h, h.cpus))
}
