package report

import (
	"fmt"
	"math"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/usage"
)

// Thresholds for advice about memory. If half of it is unused, a second job could have used it.
const (
	lowMem      = 0.50      // peak / limit
	spareMem    = 512 << 20 // bytes that a smaller request would free; less is not worth mentioning
	memHeadroom = 1.2       // suggested / peak
	memStall    = 0.10      // part of the time during which all processes waited for memory
	leastMore   = 1.25      // suggested / the limit that was too low
	someMore    = 1.5       // likewise, if the growth is not known
	// the least suggestion, because program files and kernel memory count against mem, too
	leastMem = 64 << 20
)

// oomAdvice suggests a larger mem for the host that ran out of memory: with several hosts, requests
// are per chunk. If the job's memory was measured half-way, the suggestion lets it grow as much
// again as it grew since then. Otherwise nobody knows how much more it needs.
func (r *Report) oomAdvice(t totals) Advice {
	limit, host := t.memLimit, ""
	if names := r.hostNames(); len(names) == 1 {
		host = names[0]
	}
	if len(r.Hosts) > 1 {
		limit = nil
		for _, name := range r.hostNames() {
			h := r.Hosts[name]
			if h.OOMKills != nil && *h.OOMKills > 0 && h.MemLimitBytes != nil &&
				(limit == nil || *h.MemLimitBytes > *limit) {
				limit, host = h.MemLimitBytes, name
			}
		}
	}
	if limit == nil {
		return Advice{Text: "memory ran out" + r.oomWhere() + ", and nothing limited the job's: request mem"}
	}
	text := fmt.Sprintf("mem=%s was too little%s", asSize(*limit), r.oomWhere())
	ask, more := int64(someMore*float64(*limit)), orMore
	if h := r.Hosts[host]; h != nil {
		if before, ok := halfWay(h.Series); ok && before < *limit {
			ask = max(2**limit-before, int64(leastMore*float64(*limit)))
			more = ""
			text += fmt.Sprintf("; %s were in use half-way", asUsed(before))
		}
	}
	return try("mem="+asSize(rounded(ask))+more+r.eachHost(), text)
}

// orMore is behind a request that may be far too small.
const orMore = " or more"

// eachHost is the end of a request that is meant per host.
func (r *Report) eachHost() string {
	if len(r.Hosts) > 1 {
		return " on each host"
	}
	return ""
}

// halfWay returns the memory in use when half of the series' time had passed, or false if the
// series is too short to show growth.
func halfWay(s *hostapi.Series) (bytes int64, ok bool) {
	const leastPoints = 6
	if s == nil || s.Check() != nil || len(s.Times) < leastPoints {
		return 0, false
	}
	values := s.Columns[hostapi.ColumnRSSBytes]
	first, last := s.Times[0], s.Times[len(s.Times)-1]
	for i, at := range s.Times {
		if at >= first+(last-first)/2 && values != nil {
			return int64(values[i]), !math.IsNaN(values[i])
		}
	}
	return 0, false
}

// stallAdvice is for a job that lives with too little memory: the kernel reclaims pages that the
// job needs again.
func stallAdvice(t totals, part float64) Advice {
	a := Advice{Text: fmt.Sprintf("for %.0f%% of the time the whole job waited for memory that the kernel had to free "+
		"or read again", 100*part)}
	if t.memLimit != nil && t.hosts <= 1 {
		a.Try = "mem=" + asSize(rounded(int64(leastMore*float64(*t.memLimit))))
	}
	return a
}

// memAdvice is empty if a host used enough of its memory, did not report it, or had a different
// limit. Requests are per chunk, so the host that used most decides for all.
func (r *Report) memAdvice() Advice {
	var most float64
	var peak, limit int64
	for _, h := range r.Hosts {
		if h.MemBytes == nil || h.MemLimitBytes == nil || limit != 0 && *h.MemLimitBytes != limit {
			return Advice{}
		}
		eff, ok := usage.MemEfficiency(*h.MemBytes, *h.MemLimitBytes)
		if !ok {
			return Advice{}
		}
		most, peak, limit = max(most, eff), max(peak, *h.MemBytes), *h.MemLimitBytes
	}
	ask := rounded(max(leastMem, int64(math.Ceil(float64(peak)*memHeadroom))))
	if most >= lowMem || limit-ask < spareMem {
		return Advice{}
	}
	return try("mem="+asSize(ask)+r.eachHost(),
		fmt.Sprintf("the peak was %s of %s", asUsed(peak), asSize(limit)))
}

// rounded rounds bytes up to whole mb, from 100mb on to tens, and from 1gb on to whole gb.
func rounded(bytes int64) int64 {
	unit := int64(1 << 20)
	switch {
	case bytes >= 1<<30:
		unit = 1 << 30
	case bytes >= 100<<20:
		unit = 10 << 20
	}
	return (bytes + unit - 1) / unit * unit
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
