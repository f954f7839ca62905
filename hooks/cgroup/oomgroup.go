package main

import (
	"cmp"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

var oomResource = resource{
	decide: (*policy).decideOOM,
}

// oomGroupAsked returns the job's choice of memory.oom.group, or nil. It accepts the values that
// PBS accepts for a boolean (openpbs attr_fn_b.c, is_true_or_false).
func oomGroupAsked(list hostapi.Resources) (*bool, error) {
	v, ok := list["oom_group"]
	if !ok {
		return nil, nil
	}
	switch strings.ToLower(v) {
	case "true", "t", "y", "1":
		return new(true), nil
	case "false", "f", "n", "0":
		return new(false), nil
	}
	return nil, hostapi.Errorf(hostapi.KindJob, "resource_list oom_group=%s: neither true nor false", v)
}

// decideOOM decides what happens near the limit and when it is hit. Only v2 can be configured for
// that.
func (p *policy) decideOOM(got *assignment, h host, _ []holding) error {
	asked, err := oomGroupAsked(got.ask.list)
	if err != nil {
		return err
	}
	if !p.Memory.Enabled || !h.v2 {
		if asked != nil && *asked {
			got.noteUnenforced("oom_group", "memory", p.Memory.Enabled)
		}
		return nil
	}
	l := &got.limits
	l.OOMGroup = cmp.Or(asked, &p.Memory.OOMGroup)
	if p.Memory.HighPercent > 0 && l.Mem != nil {
		high := wholePages(int64(float64(*l.Mem) * p.Memory.HighPercent / 100))
		l.MemHigh = &high
	}
	return nil
}
