package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/pbs"
)

// limits are a job's time limits. 0 means none.
type limits struct {
	// Asked is the request that they were made from. If the job's request changes, they are made
	// again. If only the configuration changes, they are not.
	Asked hostapi.Resources `json:"asked,omitempty"`

	// as shown to the user: at most the node's maximum, without overtime
	Walltime time.Duration `json:"walltime,omitempty"`
	// when the job is ended: Walltime plus everything that is added
	End time.Duration `json:"end,omitempty"`
	// when pbs_mom ends the job, before End; 0 if pbs_mom does not
	MoM      time.Duration    `json:"mom,omitempty"`
	Soft     time.Duration    `json:"soft,omitempty"`
	CPUT     time.Duration    `json:"cput,omitempty"`     // 0 under pbs_mom, too
	Warnings []config.Warning `json:"warnings,omitempty"` // in order of time; each is before Walltime
}

// Resources about time. pbs_mom knows all except walltime_signal.
const (
	walltime       = "walltime"
	softWalltime   = "soft_walltime"
	minWalltime    = "min_walltime"
	maxWalltime    = "max_walltime"
	cput           = "cput"
	walltimeSignal = "walltime_signal"
)

// askedFor returns the job's resources that determine its limits, or nil.
func askedFor(r hostapi.Resources) hostapi.Resources {
	var asked hostapi.Resources
	for _, name := range []string{walltime, softWalltime, minWalltime, maxWalltime, cput, walltimeSignal} {
		if v, ok := r[name]; ok {
			if asked == nil {
				asked = hostapi.Resources{}
			}
			asked[name] = v
		}
	}
	return asked
}

// ender is the program that ends a job at its limits before this hook does.
type ender int

const (
	nobody    ender = iota
	pbsMoM          // pbs_mom, on the mother superior
	pbsSister       // on a sister host, where changes by qalter do not arrive
)

// enderOf returns what ends a job.
func (s *state) enderOf(job *hostapi.Job) ender {
	switch {
	case s.MoM != nil:
		return nobody
	case job.MotherSuperior:
		return pbsMoM
	}
	return pbsSister
}

// newLimits makes the limits of a job that requests r and is ended by by. told are lines for the
// job's standard error about requests that cannot be met. newLimits fails on invalid values and
// names them.
func (p *policy) newLimits(r hostapi.Resources, by ender) (l limits, told []string, err error) {
	l.Asked = askedFor(r)
	own, err := walltimeAsked(l.Asked)
	if err != nil {
		return limits{}, nil, err
	}
	for _, part := range []struct {
		name string
		to   *time.Duration
	}{{softWalltime, &l.Soft}, {cput, &l.CPUT}} {
		if *part.to, err = durationOf(l.Asked, part.name); err != nil {
			return limits{}, nil, err
		}
	}
	if by == pbsMoM || by == pbsSister {
		// The mother superior's MoM adds up what hook cgroup reported on each host, and ends the
		// job (openpbs src/resmom/mom_main.c, job_over_limit).
		l.CPUT = 0
	}
	l.Walltime = p.Walltime.Limit(own)
	if own > 0 {
		l.End = own + time.Duration(p.Walltime.Overtime)
		switch {
		case by == pbsMoM || by == pbsSister && p.Walltime.MoMSisters:
			l.End += time.Duration(p.Walltime.MoMMargin)
			if by == pbsMoM {
				l.MoM = own
			}
		case by == pbsSister:
			l.End = 0
		}
	}
	if most := time.Duration(p.Walltime.Maximum); most > 0 {
		if own > most {
			told = append(told, fmt.Sprintf("=>> PBS: walltime: %s was asked for, but no job of this node runs "+
				"longer than %s",
				pbs.FormatDuration(own), pbs.FormatDuration(most)))
		}
		if l.End == 0 || l.End > most {
			l.End = most
		}
	}
	more, err := l.warn(p, own)
	if err != nil {
		return limits{}, nil, err
	}
	return l, append(told, more...), nil
}

// walltimeAsked returns the walltime that the job itself requests.
func walltimeAsked(r hostapi.Resources) (time.Duration, error) {
	own, err := durationOf(r, walltime)
	if err != nil {
		return 0, err
	}
	least, err := durationOf(r, minWalltime)
	if err != nil {
		return 0, err
	}
	most, err := durationOf(r, maxWalltime)
	if err != nil {
		return 0, err
	}
	switch {
	case least > 0 && most > 0 && least > most:
		return 0, fmt.Errorf("min_walltime %s is above max_walltime %s", r[minWalltime], r[maxWalltime])
	case least > 0 && own > 0 && own < least:
		return 0, fmt.Errorf("walltime %s is below min_walltime %s", r[walltime], r[minWalltime])
	case own == 0 && least > 0: // a shrink-to-fit job that was not scheduled
		return most, nil
	}
	return own, nil
}

// durationOf returns a resource's value, or 0.
func durationOf(r hostapi.Resources, name string) (time.Duration, error) {
	text, ok := r[name]
	if !ok {
		return 0, nil
	}
	d, err := pbs.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	if d == 0 {
		return 0, fmt.Errorf("%s=%s: want more than 0", name, text)
	}
	return min(d, longest*time.Second), nil
}

// warn chooses the job's warnings, or the node's if the job has none. A warning may be due before
// the job even starts. That is an error if the job chose both the warning and the walltime.
// Otherwise the warning is left out.
func (l *limits) warn(p *policy, own time.Duration) (told []string, err error) {
	text, asked := l.Asked[walltimeSignal]
	list := p.warnings
	if asked {
		if list, err = parseWarnings(text); err != nil {
			return nil, fmt.Errorf("%s: %w", walltimeSignal, err)
		}
	}
	if asked && l.Walltime == 0 {
		return nil, fmt.Errorf("%s: %s: the job has no walltime", walltimeSignal, text)
	}
	for _, w := range list {
		switch {
		case w.Before < l.Walltime:
			l.Warnings = append(l.Warnings, w)
		case asked && own > 0 && w.Before >= own:
			return nil, fmt.Errorf("%s: %s is not before the end of a walltime of %s", walltimeSignal, w,
				pbs.FormatDuration(own))
		case asked:
			told = append(told, fmt.Sprintf("=>> PBS: walltime: there will be no warning %s, as the job has %s in all",
				w, pbs.FormatDuration(l.Walltime)))
		}
	}
	slices.SortStableFunc(l.Warnings, func(a, b config.Warning) int { return cmp.Compare(b.Before, a.Before) })
	return told, nil
}

// parseWarnings parses a walltime_signal: warnings in the syntax of config.ParseWarning, joined by
// "+".
func parseWarnings(text string) ([]config.Warning, error) {
	entries := strings.SplitN(text, "+", 2*config.MaxWarnings+1)
	for i := len(entries) - 2; i >= 0; i-- { // the + in RTMIN+3 is not a separator
		if strings.HasSuffix(strings.ToUpper(entries[i]), "RTMIN") {
			entries[i] += "+" + entries[i+1]
			entries = slices.Delete(entries, i+1, i+2)
		}
	}
	if n := len(entries); n > config.MaxWarnings {
		return nil, fmt.Errorf("%d signals: want %d at most", n, config.MaxWarnings)
	}
	var list []config.Warning
	for _, entry := range entries {
		w, err := config.ParseWarning(entry)
		if err != nil {
			return nil, err
		}
		list = append(list, w)
	}
	return list, nil
}

// outdated reports whether the job's request has changed.
func (l limits) outdated(r hostapi.Resources) bool {
	return r != nil && !maps.Equal(l.Asked, askedFor(r))
}

// next returns when the next action other than for cput is due for a job that is not being ended. 0
// means never.
func (l limits) next(p progress) time.Duration {
	next := l.End
	if p.Warned < len(l.Warnings) {
		next = l.Walltime - l.Warnings[p.Warned].Before
	}
	if l.MoM > 0 && !p.Hastened && (next == 0 || l.MoM < next) {
		next = l.MoM
	}
	if l.Soft > 0 && !p.SoftTold && (next == 0 || l.Soft < next) {
		next = l.Soft
	}
	return next
}
