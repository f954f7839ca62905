package report

import (
	"strconv"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/usage"
)

// totals are the numbers that the text is about. A number that is not known is nil.
type totals struct {
	ncpus          int // 0 when not known
	cput, walltime *time.Duration
	wallLimit      *time.Duration // requested
	mem            *int64         // bytes, over all hosts
	memLimit       *int64         // over all hosts; nil unless every host has one
	oomKills       int64
	hosts          int
	hugetlb        int64 // bytes, over all hosts
	majorFaults    int64
	throttled      time.Duration // summed over cpus and hosts
	// How long tasks waited, over all hosts; 0 also when nobody counted.
	cpuWait, memWait, memStall, ioWait time.Duration
	// A host that does not tell makes the totals too small to compare with what was asked for on
	// all of them.
	cputPartial, memPartial bool
}

func (r *Report) totals() totals {
	t := totals{
		cput:     parsed(r.ResourcesUsed["cput"], pbs.ParseDuration),
		walltime: parsed(r.ResourcesUsed["walltime"], pbs.ParseDuration),
		mem:      (*int64)(parsed(r.ResourcesUsed["mem"], pbs.ParseSize)),
	}
	t.ncpus, _ = strconv.Atoi(r.ResourcesUsed["ncpus"])
	if r.Start != nil && r.End != nil {
		t.walltime = sharpened(t.walltime, r.End.Sub(*r.Start))
	}
	t.addHosts(r.Hosts)
	if len(r.Missing) > 0 {
		t.cputPartial, t.memPartial = true, true
	}
	if r.PBSJob != nil {
		t.wallLimit = parsed(r.PBSJob.ResourceList["walltime"], pbs.ParseDuration)
		if t.memLimit == nil {
			t.memLimit = (*int64)(parsed(r.PBSJob.ResourceList["mem"], pbs.ParseSize))
		}
	}
	return t
}

func (t *totals) addHosts(hosts map[string]*hostapi.HostUsage) {
	var cput time.Duration
	var limit int64
	limited := len(hosts) > 0
	t.hosts = len(hosts)
	for _, h := range hosts {
		if h.CPUTSeconds != nil {
			cput += time.Duration(*h.CPUTSeconds * float64(time.Second))
		}
		if h.MemLimitBytes != nil {
			limit += *h.MemLimitBytes
		}
		if h.OOMKills != nil {
			t.oomKills += *h.OOMKills
		}
		t.addWaits(h)
		limited = limited && h.MemLimitBytes != nil
		t.cputPartial = t.cputPartial || len(hosts) > 1 && h.CPUTSeconds == nil
		t.memPartial = t.memPartial || len(hosts) > 1 && h.MemBytes == nil
	}
	if limited {
		t.memLimit = &limit
	}
	if t.cput != nil {
		t.cput = sharpened(t.cput, cput)
	}
}

// addWaits adds what kept the job from getting on.
func (t *totals) addWaits(h *hostapi.HostUsage) {
	add := func(sum *time.Duration, seconds *float64) {
		if seconds != nil {
			*sum += time.Duration(*seconds * float64(time.Second))
		}
	}
	if h.HugetlbPeakBytes != nil {
		t.hugetlb += *h.HugetlbPeakBytes
	}
	if h.MajorFaults != nil {
		t.majorFaults += *h.MajorFaults
	}
	add(&t.throttled, h.ThrottledSeconds)
	if p := h.Pressure; p != nil {
		add(&t.cpuWait, p.CPUSome)
		add(&t.memWait, p.MemorySome)
		add(&t.memStall, p.MemoryFull)
		add(&t.ioWait, p.IOSome)
	}
}

// ofElapsed returns which part of its time on all hosts the job spent on d; 0 when that is not
// known.
func (t totals) ofElapsed(d time.Duration) float64 {
	if t.walltime == nil || *t.walltime <= 0 || t.hosts == 0 {
		return 0
	}
	return d.Seconds() / (t.walltime.Seconds() * float64(t.hosts))
}

// ofCPUs returns which part of the cpu time that the job could have had d is; 0 when that is not
// known.
func (t totals) ofCPUs(d time.Duration) float64 {
	if t.walltime == nil || *t.walltime <= 0 || t.ncpus == 0 {
		return 0
	}
	return d.Seconds() / (t.walltime.Seconds() * float64(t.ncpus))
}

// sharpened returns fine where coarse, whole seconds as PBS writes them, is the same or not known.
// Less than a minute is shown with a part of a second, so there it may have been rounded up.
func sharpened(coarse *time.Duration, fine time.Duration) *time.Duration {
	if coarse == nil || fine.Truncate(time.Second) == *coarse ||
		fine < time.Minute && fine.Round(time.Second) == *coarse {
		return &fine
	}
	return coarse
}

// parsed returns what parse makes of text, nil when it is none.
func parsed[T any](text string, parse func(string) (T, error)) *T {
	v, err := parse(text)
	if err != nil {
		return nil
	}
	return &v
}

func (t totals) cpuEfficiency() (float64, bool) {
	if t.cput == nil || t.walltime == nil || t.cputPartial {
		return 0, false
	}
	return usage.CPUEfficiency(*t.cput, *t.walltime, t.ncpus)
}

func (t totals) memEfficiency() (float64, bool) {
	if t.mem == nil || t.memLimit == nil || t.memPartial {
		return 0, false
	}
	return usage.MemEfficiency(*t.mem, *t.memLimit)
}
