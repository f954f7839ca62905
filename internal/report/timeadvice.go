package report

import (
	"fmt"
	"math"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// Thresholds for advice about walltime. A scheduler can start a job earlier that asks for less.
const (
	lowTime      = 0.5              // elapsed / requested
	spareTime    = 30 * time.Minute // that a smaller request would free; less is not worth mentioning
	timeHeadroom = 1.25             // suggested / elapsed
	moreTime     = 1.5              // suggested / the walltime that was too short
)

// timeoutAdvice is for a job that was ended because its walltime was over.
func (r *Report) timeoutAdvice(t totals) Advice {
	if r.Outcome.State != stateTimeout || t.wallLimit == nil {
		return Advice{}
	}
	if since, ok := r.idleSince(); ok {
		return Advice{Text: fmt.Sprintf("no cpu was busy after %s: the job may have waited for something that did not "+
			"come", since.Format(time.TimeOnly))}
	}
	return try("walltime="+pbs.FormatDuration(wholeMinutes(time.Duration(moreTime*float64(*t.wallLimit)))),
		fmt.Sprintf("walltime=%s was too short; walltime_signal warns a program that can save its state",
			pbs.FormatDuration(*t.wallLimit)))
}

// walltimeAdvice is for a job that completed long before its walltime was over.
func (r *Report) walltimeAdvice(t totals) Advice {
	if t.wallLimit == nil || *t.wallLimit <= 0 || r.Outcome.State != stateOK {
		return Advice{}
	}
	ask := wholeMinutes(time.Duration(timeHeadroom * float64(*t.walltime)))
	part := t.walltime.Seconds() / t.wallLimit.Seconds()
	if part >= lowTime || *t.wallLimit-ask < spareTime {
		return Advice{}
	}
	return try("walltime="+pbs.FormatDuration(ask),
		fmt.Sprintf("the job used %.0f%% of %s; with a shorter walltime it may start sooner", 100*part,
			pbs.FormatDuration(*t.wallLimit)))
}

// wholeMinutes rounds up to 5 minutes, from two hours on to 15.
func wholeMinutes(d time.Duration) time.Duration {
	unit := 5 * time.Minute
	if d >= 2*time.Hour {
		unit = 15 * time.Minute
	}
	return (d + unit - 1) / unit * unit
}

// leastIdle is the part of a job's time in which nothing was busy that shows that it hung.
const leastIdle = 0.25

// idleSince returns when the job's cpus were last busy. It returns false if they were until nearly
// the end, if they never were, or if a host has no series.
func (r *Report) idleSince() (since time.Time, ok bool) {
	busy, first, last := int64(0), int64(math.MaxInt64), int64(0)
	for _, h := range r.Hosts {
		s := h.Series
		if s == nil || s.Check() != nil || len(s.Times) == 0 || s.Columns[hostapi.ColumnCPU] == nil {
			return time.Time{}, false
		}
		for i, at := range s.Times {
			if s.Columns[hostapi.ColumnCPU][i] >= idleCPUs {
				busy = max(busy, at)
			}
		}
		first, last = min(first, s.Times[0]), max(last, s.Times[len(s.Times)-1])
	}
	if busy == 0 || len(r.Missing) > 0 || float64(last-busy) < leastIdle*float64(last-first) {
		return time.Time{}, false
	}
	return time.Unix(busy, 0).In(r.End.Location()), true
}
