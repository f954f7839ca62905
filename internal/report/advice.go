package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/usage"
)

// Thresholds for advice. If half of the memory is unused, a second job could have used it.
const (
	adviceAfter = 10 * time.Second // a shorter job is mostly start-up
	lowCPU      = 0.65             // cput / (walltime*ncpus); below it jobstats marks a job red
	idleCPUs    = 0.01             // cpus busy on average
	lowMem      = 0.50             // peak / limit
	spareMem    = 512 << 20        // bytes that a smaller request would free; less is not worth mentioning
	memHeadroom = 1.2              // suggested / peak
	memStall    = 0.10             // part of the time during which all processes waited for memory
	throttled   = 0.10             // of the cpu time that the job could have had
	unevenCPU   = 1.25             // cput of the busiest host / the mean of all
	unevenAfter = time.Minute      // a shorter job's start is uneven on any hosts
	// the least suggestion, because program files and kernel memory count against mem, too
	leastMem = 64 << 20
)

// advice returns suggestions for the job's owner: what slowed the job down, and what to request
// instead. A running job also gets CPU advice, because its average is always known. It gets no
// memory advice, because its peak may be yet to come.
func advice(r *Report) []string {
	t := r.totals()
	var notes []string
	add := func(note string) {
		if note != "" {
			notes = append(notes, note)
		}
	}
	if t.oomKills > 0 {
		add(r.oomAdvice(t))
	}
	if t.walltime == nil || *t.walltime < adviceAfter {
		return notes
	}
	add(t.cpuAdvice())
	if len(r.Missing) == 0 && *t.walltime > unevenAfter {
		add(r.imbalanceAdvice(*t.walltime))
	}
	if *t.walltime > unevenAfter {
		add(r.gpuAdvice())
	}
	if part := t.ofElapsed(t.memStall); part > memStall && t.oomKills == 0 {
		add(stallAdvice(t, part))
	}
	if part := t.ofCPUs(t.throttled); part > throttled {
		add(fmt.Sprintf("throttled: the cpu quota held the job back for %.0f%% of its cpu time; ask for more ncpus or "+
			"start fewer threads", 100*part))
	}
	if r.askedMem() && t.oomKills == 0 && r.End != nil && len(r.Missing) == 0 {
		add(memAdvice(r.Hosts))
	}
	return notes
}

// alike reports whether all hosts gave the job the same number of cpus. If not, its work was not
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

// askedMem reports whether the limit was the job's own request. Its owner cannot lower a default.
// For an unknown job, the limit counts as a request.
func (r *Report) askedMem() bool {
	if r.PBSJob == nil {
		return true
	}
	_, jobWide := r.PBSJob.ResourceList["mem"]
	return jobWide || strings.Contains(r.PBSJob.ExecVnode, ":mem=")
}

// oomAdvice names the limit of the host that ran out of memory: with several hosts, requests are
// per chunk.
func (r *Report) oomAdvice(t totals) string {
	limit, per := t.memLimit, ""
	if len(r.Hosts) > 1 {
		limit, per = nil, " on each host"
		for _, h := range r.Hosts {
			if h.OOMKills != nil && *h.OOMKills > 0 && h.MemLimitBytes != nil &&
				(limit == nil || *h.MemLimitBytes > *limit) {
				limit = h.MemLimitBytes
			}
		}
	}
	text := "killed by OOM" + r.oomWhere()
	if limit == nil {
		return text + ": ask for more mem"
	}
	return fmt.Sprintf("%s: ask for more than mem=%s%s", text, asSize(*limit), per)
}

// stallAdvice is for a job that lives with too little memory: the kernel reclaims pages that the
// job needs again.
func stallAdvice(t totals, part float64) string {
	text := fmt.Sprintf("for %.0f%% of the time the whole job waited for memory that the kernel had to free or read "+
		"again", 100*part)
	if t.memLimit == nil {
		return text + ": ask for more"
	}
	return text + fmt.Sprintf(": ask for more than mem=%s", asSize(*t.memLimit))
}

// cpuAdvice is for jobs that used one of their cpus, or none. An average does not show whether a
// job used few cpus all the time or all of them at times. So other jobs get no number to request.
func (t totals) cpuAdvice() string {
	eff, ok := t.cpuEfficiency()
	if !ok || eff >= lowCPU {
		return ""
	}
	cpus := count(int64(t.ncpus), "cpu", "cpus")
	busy := eff * float64(t.ncpus)
	switch {
	case busy < idleCPUs*float64(max(t.hosts, 1)):
		return fmt.Sprintf("idle: %s of cpu time in %s", cpuTime(t.cput.Seconds()), clock(*t.walltime))
	case busy >= 0.85 && busy <= 1.1 && t.ncpus > 1 && t.hosts <= 1:
		return fmt.Sprintf("one of %s was used: a program that is not parallel needs ncpus=1", cpus)
	}
	return ""
}

// imbalanceAdvice names the hosts with the most and the least cpu time, if all had as many cpus.
func (r *Report) imbalanceAdvice(walltime time.Duration) string {
	if i := r.Imbalance; i == nil || i.CPUT == nil || i.CPUT.Ratio < unevenCPU || !r.alike() {
		return ""
	}
	least, most := "", r.Imbalance.CPUT.Host
	for _, host := range r.hostNames() {
		used := r.Hosts[host].CPUTSeconds
		if used == nil {
			return ""
		}
		if least == "" || *used < *r.Hosts[least].CPUTSeconds {
			least = host
		}
	}
	low, high := *r.Hosts[least].CPUTSeconds, *r.Hosts[most].CPUTSeconds
	if high < idleCPUs*walltime.Seconds() {
		return "" // all of them are idle
	}
	times := ""
	if low > 0 && high/low < 100 {
		times = fmt.Sprintf(" %.1f times", high/low)
	}
	return fmt.Sprintf("imbalance%s between %s and %s: %s and %s of cpu time", times, most, least, cpuTime(high),
		cpuTime(low))
}

// gpuAdvice names GPUs on which nothing ran.
func (r *Report) gpuAdvice() string {
	var unused int64
	all := r.gpus()
	for _, g := range all {
		if *g.UtilizationPercent == 0 && !g.Returned {
			unused++
		}
	}
	if unused == 0 {
		return ""
	}
	if len(all) == 1 {
		return "the GPU was never used"
	}
	return fmt.Sprintf("never used: %d of %d GPUs", unused, len(all))
}

// memAdvice returns "" if a host used enough of its memory, did not report it, or had a different
// limit. Requests are per chunk, so the host that used most decides for all.
func memAdvice(hosts map[string]*hostapi.HostUsage) string {
	var most float64
	var peak, limit int64
	for _, h := range hosts {
		if h.MemBytes == nil || h.MemLimitBytes == nil || limit != 0 && *h.MemLimitBytes != limit {
			return ""
		}
		eff, ok := usage.MemEfficiency(*h.MemBytes, *h.MemLimitBytes)
		if !ok {
			return ""
		}
		most, peak, limit = max(most, eff), max(peak, *h.MemBytes), *h.MemLimitBytes
	}
	ask := suggested(peak)
	if most >= lowMem || limit-ask < spareMem {
		return ""
	}
	per := ""
	if len(hosts) > 1 {
		per = " on each host"
	}
	return fmt.Sprintf("asked for %s%s, used %s: %s would do", asSize(limit), per, asUsed(peak), asSize(ask))
}

// suggested returns the peak with some headroom: in whole mb, from 1gb on in whole gb.
func suggested(peak int64) int64 {
	ask := max(leastMem, int64(math.Ceil(float64(peak)*memHeadroom)))
	unit := int64(1 << 20)
	if ask >= 1<<30 {
		unit = 1 << 30
	}
	return (ask + unit - 1) / unit * unit
}

// asSize formats bytes for qsub, in whole gb if possible, else in mb, rounded up.
func asSize(bytes int64) string {
	if bytes > 0 && bytes%(1<<30) == 0 {
		return fmt.Sprintf("%dgb", bytes>>30)
	}
	return fmt.Sprintf("%dmb", (bytes+1<<20-1)>>20)
}

// asUsed formats bytes in the units of qsub, for people to compare.
func asUsed(bytes int64) string {
	if bytes >= 1<<30 {
		return fmt.Sprintf("%.1fgb", float64(bytes)/(1<<30))
	}
	return asSize(bytes)
}
