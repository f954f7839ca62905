package main

import (
	"fmt"
	"strconv"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
)

var pidsResource = resource{
	ask: (*ask).addPids,
	offer: func(h *hook, there *host) (err error) {
		there.hasPids = h.tree.Has("pids")
		if h.policy.Pids.Enabled {
			there.tasks, err = h.tasks()
		}
		return err
	},
	decide: (*policy).decidePids,
	unenforced: func(p *policy, l cgroup.Limits, _ host, a ask) []string {
		if a.pids == nil || l.Pids != nil {
			return nil
		}
		return []string{unenforced(fmt.Sprintf("pids=%d", *a.pids), "pids", p.Pids.Enabled)}
	},
	parent: func(_ *policy, l *cgroup.Limits, h host, _ []holding) {
		if h.tasks > 0 && h.hasPids {
			l.Pids = &h.tasks
		}
	},
}

// addPids adds the job's own limit on its tasks.
func (a *ask) addPids(job *hostapi.Job) error {
	v, ok := job.ResourceList["pids"]
	if !ok {
		return nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 {
		return fmt.Errorf("resource_list pids=%s: not a number of 1 or more", v)
	}
	a.pids = &n
	return nil
}

// tasks returns how many tasks all jobs together may have, by [pids] and by the cgroups above them.
// 0 means that no limit is known.
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

func (p *policy) decidePids(l *cgroup.Limits, h host, a ask, _ []holding) error {
	if !p.Pids.Enabled || !h.hasPids {
		return nil
	}
	if a.pids != nil && *a.pids > config.MaxPids {
		return hostapi.Errorf(hostapi.KindJob, "pids requested (%d) exceeds the most that the kernel takes (%d)",
			*a.pids, config.MaxPids)
	}
	limit := p.Pids.Max
	if limit == config.PidsByCPUs {
		limit = p.tasksOf(h, a)
	}
	if limit > 0 {
		l.Pids = &limit
	}
	if a.pids != nil && (l.Pids == nil || *a.pids < *l.Pids) {
		l.Pids = a.pids
	}
	return nil
}

// tasksOf returns how many tasks a job may have according to its cpus. 0 means no limit.
func (p *policy) tasksOf(h host, a ask) int64 {
	switch {
	case h.tasks == 0:
		return 0
	case a.exclhost: // nobody else needs tasks
		return h.tasks
	}
	return p.Pids.Part(h.tasks, a.NCPUs, p.countCPUs(h, h.cpus))
}
