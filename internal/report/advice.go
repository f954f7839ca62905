package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/usage"
)

// When a job gets advice. The CPU threshold is the one below which jobstats marks a job red. A
// second job would have found room when half of the memory is unused.
const (
	adviceAfter = 10 * time.Second // a shorter job is mostly start-up
	lowCPU      = 0.65             // cput / (walltime*ncpus)
	lowMem      = 0.50             // peak / limit
	spareMem    = 512 << 20        // bytes that asking for less would free; less is not worth a word
	memHeadroom = 1.2              // suggested / peak
	memStall    = 0.10             // of the time, all processes waiting for memory
	throttled   = 0.10             // of the cpu time that the job could have had
	unevenCPU   = 1.25             // cput of the host that used most / the mean of all
	unevenAfter = time.Minute      // a shorter job's start is not even on any hosts
	// suggested at least: programs' files and the kernel's own memory count against mem, too
	leastMem = 64 << 20
)

// advice returns what the job's owner could ask for instead. CPU advice is given to a running job
// too, as its average is known at any time. Memory advice is not, as its peak may come yet.
func advice(r *Report) []string {
	t := r.totals()
	var notes []string
	if t.oomKills > 0 {
		notes = append(notes, oomAdvice(r.Hosts, t))
	}
	if t.walltime == nil || *t.walltime < adviceAfter {
		return notes
	}
	if eff, ok := t.cpuEfficiency(); ok && eff < lowCPU {
		notes = append(notes, cpuAdvice(t, eff))
	}
	if i := r.Imbalance; i != nil && i.CPUT != nil && i.CPUT.Ratio >= unevenCPU && *t.walltime > unevenAfter &&
		len(r.Missing) == 0 && r.alike() {
		notes = append(notes, fmt.Sprintf("the work was not even: %s used %.0f%% of the cpu time that hosts used on "+
			"average, and the others waited for it or had nothing to do",
			i.CPUT.Host, 100*i.CPUT.Ratio))
	}
	if part := t.ofElapsed(t.memStall); part > memStall && t.oomKills == 0 {
		notes = append(notes, stallAdvice(t, part))
	}
	if part := t.ofCPUs(t.throttled); part > throttled {
		notes = append(notes, fmt.Sprintf("the cpu quota held the job back for %.0f%% of its cpu time: "+
			"ask for more ncpus or start fewer threads", 100*part))
	}
	if text := memAdvice(r.Hosts); text != "" && r.askedMem() && t.oomKills == 0 && r.End != nil &&
		len(r.Missing) == 0 {
		notes = append(notes, text)
	}
	return notes
}

// alike reports whether all hosts gave the job as many cpus as each other: else its work was not
// meant to be even.
func (r *Report) alike() bool {
	n := -1
	for _, h := range r.Hosts {
		if n >= 0 && h.NCPUs != n {
			return false
		}
		n = h.NCPUs
	}
	return true
}

// askedMem reports whether the limit was the job's own request. A default is not its owner's to
// lower. The limit of a job that is not known counts as one.
func (r *Report) askedMem() bool {
	if r.PBSJob == nil {
		return true
	}
	_, jobWide := r.PBSJob.ResourceList["mem"]
	return jobWide || strings.Contains(r.PBSJob.ExecVnode, ":mem=")
}

// oomAdvice names the limit of the host that ran out: of several, requests are per chunk.
func oomAdvice(hosts map[string]*hostapi.HostUsage, t totals) string {
	limit, per := t.memLimit, ""
	if len(hosts) > 1 {
		limit, per = nil, " on each host"
		for _, h := range hosts {
			if h.OOMKills != nil && *h.OOMKills > 0 && h.MemLimitBytes != nil &&
				(limit == nil || *h.MemLimitBytes > *limit) {
				limit = h.MemLimitBytes
			}
		}
	}
	if limit == nil {
		return "the job ran out of memory: ask for more"
	}
	return fmt.Sprintf("the job ran out of memory: ask for more than mem=%s%s", inMB(*limit), per)
}

// stallAdvice is for a job that lives with too little memory: the kernel takes pages away that it
// needs again.
func stallAdvice(t totals, part float64) string {
	text := fmt.Sprintf("for %.0f%% of the time the whole job waited for memory that the kernel had to free or read "+
		"again", 100*part)
	if t.memLimit == nil {
		return text + ": ask for more"
	}
	return text + fmt.Sprintf(": ask for more than mem=%s", inMB(*t.memLimit))
}

func cpuAdvice(t totals, eff float64) string {
	busy := eff * float64(t.ncpus)
	used := int(math.Ceil(busy - 0.1)) // 1.05 is one busy cpu and some noise
	switch {
	case t.ncpus == 1 || used >= t.ncpus:
		return fmt.Sprintf("CPU efficiency is %.0f%%: the rest of the time the job waited, for files, the network or "+
			"itself", 100*eff)
	case used <= 1:
		return fmt.Sprintf("CPU efficiency is %.0f%%: no more than one of %d ncpus was busy; "+
			"a program that is not parallel needs ncpus=1 only", 100*eff, t.ncpus)
	}
	return fmt.Sprintf("CPU efficiency is %.0f%%: %.1f of %d ncpus were busy on average; ncpus=%d would do",
		100*eff, busy, t.ncpus, used)
}

// memAdvice returns "" when a host used enough of its memory or does not tell. Requests are per
// chunk, so the host that used most decides for all.
func memAdvice(hosts map[string]*hostapi.HostUsage) string {
	var most float64
	var peak, limit int64
	for _, h := range hosts {
		if h.MemBytes == nil || h.MemLimitBytes == nil {
			return ""
		}
		eff, ok := usage.MemEfficiency(*h.MemBytes, *h.MemLimitBytes)
		if !ok {
			return ""
		}
		most, peak, limit = max(most, eff), max(peak, *h.MemBytes), max(limit, *h.MemLimitBytes)
	}
	ask := max(leastMem, int64(math.Ceil(float64(peak)*memHeadroom/(1<<20)))<<20)
	if most >= lowMem || limit-ask < spareMem {
		return ""
	}
	per := ""
	if len(hosts) > 1 {
		per = " per host"
	}
	return fmt.Sprintf("no more than %.0f%% of the memory was used: ask for mem=%s%s next time",
		100*most, inMB(max(ask, 1<<20)), per)
}

// inMB returns bytes as qsub takes them, rounded up.
func inMB(bytes int64) string { return fmt.Sprintf("%dmb", (bytes+1<<20-1)>>20) }
