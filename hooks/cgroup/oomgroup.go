package main

import (
	"fmt"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
)

var oomResource = resource{
	ask:    (*ask).addOOMGroup,
	decide: (*policy).decideOOM,
	unenforced: func(p *policy, l cgroup.Limits, _ host, a ask) []string {
		if a.oomGroup == nil || !*a.oomGroup || l.OOMGroup != nil {
			return nil
		}
		return []string{unenforced("oom_group", "memory", p.Memory.Enabled)}
	},
}

// addOOMGroup adds the job's choice of memory.oom.group. It accepts the values that PBS accepts for
// a boolean (openpbs attr_fn_b.c, is_true_or_false).
func (a *ask) addOOMGroup(job *hostapi.Job) error {
	v, ok := job.ResourceList["oom_group"]
	if !ok {
		return nil
	}
	on := false
	switch strings.ToLower(v) {
	case "true", "t", "y", "1":
		on = true
	case "false", "f", "n", "0":
	default:
		return fmt.Errorf("resource_list oom_group=%s: neither true nor false", v)
	}
	a.oomGroup = &on
	return nil
}

// decideOOM decides what happens near the limit and when it is hit. Only v2 can be configured for
// that.
func (p *policy) decideOOM(l *cgroup.Limits, h host, a ask, _ []holding) error {
	if !p.Memory.Enabled || !h.v2 {
		return nil
	}
	l.OOMGroup = &p.Memory.OOMGroup
	if a.oomGroup != nil {
		l.OOMGroup = a.oomGroup
	}
	if p.Memory.HighPercent > 0 && l.Mem != nil {
		high := wholePages(int64(float64(*l.Mem) * p.Memory.HighPercent / 100))
		l.MemHigh = &high
	}
	return nil
}
