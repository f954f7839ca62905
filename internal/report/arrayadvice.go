package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/internal/pbs"
)

// Thresholds for advice to arrays.
const (
	fewSubjobs  = 4           // fewer show no pattern
	shortSubjob = time.Minute // a shorter one takes PBS about as long to start
	manyShort   = 10          // subjobs
)

// advice returns suggestions for the next run of the array. All subjobs have one request, so the
// one that needs most decides.
func (a *Array) advice() []Advice {
	var list []Advice
	for _, advice := range []Advice{a.memAdvice(), a.walltimeAdvice(), a.shortAdvice()} {
		if advice.Text != "" {
			list = append(list, advice)
		}
	}
	return append(list, a.frequentAdvice()...)
}

// memAdvice suggests the most that any subjob needs.
func (a *Array) memAdvice() Advice {
	limit, _ := a.limits()
	var short []int // of memory
	var ask, peak int64
	var more string
	for i, r := range a.subjobs {
		t := a.figures[i]
		switch {
		case r.Outcome.State == stateOOM || t.oomKills > 0:
			short = append(short, indexOf(r))
			size, rest, _ := strings.Cut(strings.TrimPrefix(r.oomAdvice(t).Try, "mem="), " ")
			if bytes, err := pbs.ParseSize(size); err == nil {
				ask = max(ask, int64(bytes))
			}
			if strings.HasPrefix(" "+rest, orMore) {
				more = orMore
			}
		case t.mem == nil || r.End == nil || len(r.Hosts) != 1:
			return Advice{}
		default:
			peak = max(peak, *t.mem)
		}
	}
	switch {
	case len(short) > 0 && ask > 0:
		text := fmt.Sprintf("%d of %d subjobs ran out of memory", len(short), len(a.subjobs))
		if peak > 0 {
			text += fmt.Sprintf("; the others needed at most %s", asUsed(peak))
		}
		return try("mem="+asSize(ask)+more, text)
	case len(short) > 0 || limit == 0 || len(a.subjobs) < fewSubjobs || !a.subjobs[0].askedMem():
		return Advice{}
	}
	ask = rounded(max(leastMem, int64(math.Ceil(float64(peak)*memHeadroom))))
	if float64(peak) >= lowMem*float64(limit) || limit-ask < spareMem/int64(min(len(a.subjobs), mostBars)) {
		return Advice{}
	}
	return try("mem="+asSize(ask), fmt.Sprintf("the largest peak was %s of %s", asUsed(peak), asSize(limit)))
}

// walltimeAdvice suggests the most time that any subjob needs.
func (a *Array) walltimeAdvice() Advice {
	_, limit := a.limits()
	late, longest := 0, time.Duration(0)
	for i, r := range a.subjobs {
		if r.Outcome.State == stateTimeout {
			late++
		} else if t := a.figures[i].walltime; t == nil || r.End == nil {
			return Advice{}
		} else {
			longest = max(longest, *t)
		}
	}
	ask := wholeMinutes(time.Duration(timeHeadroom * float64(longest)))
	switch {
	case limit == 0:
		return Advice{}
	case late > 0:
		return try("walltime="+pbs.FormatDuration(wholeMinutes(time.Duration(moreTime*float64(limit)))),
			fmt.Sprintf("%d of %d subjobs took longer than %s", late, len(a.subjobs), pbs.FormatDuration(limit)))
	case len(a.subjobs) < fewSubjobs || longest.Seconds() >= lowTime*limit.Seconds() || limit-ask < spareTime:
		return Advice{}
	}
	return try("walltime="+pbs.FormatDuration(ask),
		fmt.Sprintf("the longest took %s of %s; shorter ones may start sooner", clock(longest),
			pbs.FormatDuration(limit)))
}

// shortAdvice is for subjobs that hardly take longer than their start.
func (a *Array) shortAdvice() Advice {
	var took []time.Duration
	for i, r := range a.subjobs {
		if t := a.figures[i].walltime; t != nil && r.Outcome.State == stateOK {
			took = append(took, *t)
		}
	}
	if len(took) < manyShort {
		return Advice{}
	}
	slices.Sort(took)
	if median := took[(len(took)-1)/2]; median < shortSubjob {
		return Advice{Text: fmt.Sprintf("half of the subjobs took at most %s: let one do the work of several, since "+
			"PBS needs seconds to start each", clock(median))}
	}
	return Advice{}
}

// frequentAdvice returns the advice that at least half of the subjobs got. Advice on memory and
// walltime is not among it.
func (a *Array) frequentAdvice() []Advice {
	if len(a.subjobs) < fewSubjobs {
		return nil
	}
	kind := func(a Advice) string {
		text, _, _ := strings.Cut(a.Text, ":") // the figures differ
		return cmp.Or(a.Try, text)
	}
	seen := map[string]int{}
	var kinds []Advice
	for _, r := range a.subjobs {
		for _, advice := range r.Advice {
			if strings.HasPrefix(advice.Try, "mem=") || strings.HasPrefix(advice.Try, "walltime=") {
				continue
			}
			if seen[kind(advice)]++; seen[kind(advice)] == 1 {
				kinds = append(kinds, advice)
			}
		}
	}
	var list []Advice
	for _, advice := range kinds {
		if n := seen[kind(advice)]; 2*n >= len(a.subjobs) {
			advice.Text = fmt.Sprintf("%d of %d subjobs: %s", n, len(a.subjobs), advice.Text)
			list = append(list, advice)
		}
	}
	return list
}
