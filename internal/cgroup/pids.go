package cgroup

import "fmt"

// pidsController limits the number of tasks, with the same file in both versions
// (cgroup-v1/pids.rst).
var pidsController = controller{
	name:  "pids",
	v1:    []knob{pidsMax},
	v2:    []knob{pidsMax},
	asked: func(l *Limits) bool { return l.Pids != nil },
	check: func(_ *Job, l *Limits) error {
		if l.Pids != nil && *l.Pids < 0 {
			return fmt.Errorf("limit of pids: %d: negative", *l.Pids)
		}
		return nil
	},
	usage: func(r *reader, u *Usage) { u.Pids, u.PidsPeak = r.number("pids.current"), r.number("pids.peak") },
}

var pidsMax = amount(knob{file: "pids.max", none: "max"}, func(l *Limits) **int64 { return &l.Pids })
