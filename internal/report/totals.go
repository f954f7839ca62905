package report

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/usage"
)

// totals are the numbers in the text. An unknown number is nil.
type totals struct {
	ncpus          int // 0 if unknown
	cput, walltime *time.Duration
	wallLimit      *time.Duration // requested
	mem            *int64         // bytes, over all hosts
	memLimit       *int64         // over all hosts; nil unless every host has one
	oomKills       int64
	hosts          int
	hugetlb        int64 // bytes, over all hosts
	majorFaults    int64
	throttled      time.Duration // summed over cpus and hosts
	// How long tasks waited, over all hosts; also 0 if nobody counted.
	cpuWait, memWait, memStall, ioWait time.Duration
	exclusive                          bool // the job had its hosts or vnodes to itself
	// If a host does not report, the totals are too small to compare with the requests on all
	// hosts.
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
		t.exclusive = isExclusive(r.PBSJob.ResourceList["place"])
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

// addWaits adds what slowed the job down.
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

// ofElapsed returns d as a part of the job's time on all hosts; 0 if that is unknown.
func (t totals) ofElapsed(d time.Duration) float64 {
	if t.walltime == nil || *t.walltime <= 0 || t.hosts == 0 {
		return 0
	}
	return d.Seconds() / (t.walltime.Seconds() * float64(t.hosts))
}

// ofCPUs returns d as a part of the cpu time that was available to the job; 0 if that is unknown.
func (t totals) ofCPUs(d time.Duration) float64 {
	if t.walltime == nil || *t.walltime <= 0 || t.ncpus == 0 {
		return 0
	}
	return d.Seconds() / (t.walltime.Seconds() * float64(t.ncpus))
}

// sharpened returns fine if coarse, whole seconds as PBS writes them, is equal or unknown. Times of
// less than a minute are shown with a fraction, so coarse may have been rounded up there.
func sharpened(coarse *time.Duration, fine time.Duration) *time.Duration {
	if coarse == nil || fine.Truncate(time.Second) == *coarse ||
		fine < time.Minute && fine.Round(time.Second) == *coarse {
		return &fine
	}
	return coarse
}

// parsed returns the parsed text, or nil if it does not parse.
func parsed[T any](text string, parse func(string) (T, error)) *T {
	v, err := parse(text)
	if err != nil {
		return nil
	}
	return &v
}

// isExclusive reports whether no other job may run where a job with that place does.
func isExclusive(place string) bool {
	words := strings.Split(place, ":")
	return slices.Contains(words, "excl") || slices.Contains(words, "exclhost")
}

// leastRated is the shortest time for which a job's use of its cpus is rated. A shorter job mostly
// starts.
const leastRated = time.Minute

// cpuEfficiency returns the part of its cpus that the job used. A short job is not rated, nor one
// that had its hosts to itself: it may have asked for one cpu and used them all.
func (t totals) cpuEfficiency() (float64, bool) {
	if t.exclusive || t.walltime == nil || *t.walltime < leastRated {
		return 0, false
	}
	return t.cpuUse()
}

// cpuUse is cpuEfficiency for any job.
func (t totals) cpuUse() (float64, bool) {
	if t.cput == nil || t.walltime == nil || t.cputPartial {
		return 0, false
	}
	return usage.CPUEfficiency(*t.cput, *t.walltime, t.ncpus)
}

// memEfficiency returns the part of its memory that the job used at its peak. A job that had its
// hosts to itself is not rated.
func (t totals) memEfficiency() (float64, bool) {
	if t.exclusive || t.mem == nil || t.memLimit == nil || t.memPartial {
		return 0, false
	}
	return usage.MemEfficiency(*t.mem, *t.memLimit)
}
