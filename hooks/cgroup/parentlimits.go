package main

import (
	"context"
	"errors"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
)

// The parent of all jobs is limited to what the node has for jobs, as pbs_cgroups limits it at
// exechost_startup (openpbs pbs_cgroups.PY, _exechost_startup_handler). So jobs that have asked for
// no mem leave the node its reserve, however many they are.
//
// The figures are those that begin decides by and that PBS is told of. The limit is what jobs hold
// if that is more: what a job was granted is not taken from it. So it is after a reload with a
// larger reserve, and while the place of a suspended job is another's.

// parentLimits are the limits of all jobs together, given what they hold.
func (p *policy) parentLimits(h host, jobs []holding) cgroup.Limits {
	var l cgroup.Limits
	if p.Memory.Enabled && h.hasMem {
		mem := max(p.memTotal(h.node), wholePages(heldMem(jobs)))
		l.Mem = &mem
		if p.Memsw.Enabled && h.hasMemsw {
			l.MemSwap = new(max(mem+p.swapTotal(h.node), wholePages(heldMemsw(jobs))))
		}
	}
	if h.tasks > 0 && h.hasPids {
		l.Pids = &h.tasks
	}
	if !p.Hugetlb.Enabled {
		return l
	}
	l.Hugetlb = map[int64]int64{}
	for page := range h.hugePages.Total {
		total, held := p.hugeTotal(h, page), int64(0)
		for _, o := range jobs {
			held += o.limits.Hugetlb[page]
		}
		l.Hugetlb[page] = max(total, held)
	}
	return l
}

// limitParent puts the limits of all jobs together in force. A limit that jobs are above stays what
// it was until the next exechost_periodic, since a lower one would kill. The caller has the
// lock.
func (h *hook) limitParent(there host, jobs []holding) error {
	want := h.policy.parentLimits(there, jobs)
	err := h.tree.LimitParent(want)
	if err != nil && !errors.Is(err, cgroup.ErrInUse) {
		return hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	if err == nil {
		h.settled()
	} else if h.firstLeft("", "parent") {
		h.log.Warnf("jobs have more than all of them may have by now: %v; "+
			"it is tried again at each exechost_periodic", err)
	}
	h.parent = &want
	return nil
}

// raiseParent is limitParent if jobs would hold more than it has put in force. The caller has the
// lock, and no job has been given the rest yet.
func (h *hook) raiseParent(there host, jobs []holding) error {
	if h.parent != nil && within(h.policy.parentLimits(there, jobs), *h.parent) {
		return nil
	}
	return h.limitParent(there, jobs)
}

// within reports whether limits are no higher than others.
func within(l, others cgroup.Limits) bool {
	for _, n := range []struct{ is, most *int64 }{
		{l.Mem, others.Mem}, {l.MemSwap, others.MemSwap}, {l.Pids, others.Pids},
	} {
		if n.most != nil && (n.is == nil || *n.is > *n.most) {
			return false
		}
	}
	for page, most := range others.Hugetlb {
		if n, limited := l.Hugetlb[page]; !limited || n > most {
			return false
		}
	}
	return true
}

// settleParent is limitParent for the node and the jobs as they are.
func (h *hook) settleParent(ctx context.Context) error {
	unlock, err := h.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	there, err := h.survey()
	if err != nil {
		return hostapi.Errorf(hostapi.KindNode, "survey cgroups: %w", err)
	}
	held, err := h.holdings(there)
	if err != nil {
		return err
	}
	return h.limitParent(there, held)
}

// rescan reads the node anew if its memory, swap or tasks have changed, and reports whether they
// have.
func (h *hook) rescan() (changed bool, err error) {
	was := h.node()
	now, err := was.Again(h.roots)
	if err != nil {
		return false, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	h.machine.Store(now)
	return now != was, nil
}
