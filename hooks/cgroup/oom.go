package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/pbs"
)

// oomLines bounds what the job's stderr gets; the count tells the rest.
const oomLines = 8

// tellOOM adds what is to be said about kills that the kernel made for lack of memory. Counters say that it
// killed; its log says whom, as far as it still holds the lines.
func (h *hook) tellOOM(out *hostapi.Outcome, j *cgroup.Job, s state, u cgroup.Usage) {
	var records []oomKill
	log, err := h.kmsg()
	if err == nil {
		records, err = readOOM(log, j.MemoryPath(), s.BegunMicros)
		log.Close()
	}
	if err != nil {
		h.logOf(j.ID()).Warn(err)
	}
	describeOOM(out, u, records)
}

// describeOOM puts kills into words: those of pbs_cgroups, a line each, and the number of those that there is no line of.
func describeOOM(out *hostapi.Outcome, u cgroup.Usage, records []oomKill) {
	kills := int(*u.OOMKills)
	// The log may tell of an earlier run of the job as well; the last ones are this one's.
	records = records[max(0, len(records)-kills):]
	limit := exceeded(u)
	var what []string
	for _, k := range records[:min(len(records), oomLines)] {
		w := limit
		if k.global {
			w = "Host memory exhausted"
		}
		if !slices.Contains(what, w) {
			what = append(what, w)
		}
		out.JobStderr = append(out.JobStderr, w+": "+k.line)
	}
	if len(what) == 0 {
		what = []string{limit}
	}
	if rest := kills - len(out.JobStderr); rest > 0 {
		line := fmt.Sprintf("%s: the kernel killed %d of the job's processes", what[0], kills)
		if rest < kills {
			line = fmt.Sprintf("%s: and %d more of the job's processes", what[0], rest)
		} else if u.MemLimit != nil {
			line += fmt.Sprintf(" (limit %s)", pbs.Size(*u.MemLimit).KB())
		}
		out.JobStderr = append(out.JobStderr, line)
	}
	out.Diag = strings.Join(what, ", ")
	out.Notes = append(out.Notes, out.JobStderr...)
}

// exceeded names the limit that was hit, in the words of pbs_cgroups. failcnt alone is no kill, it only tells two
// limits apart once there was one. Where both are the same, mem is what the job asked for.
func exceeded(u cgroup.Usage) string {
	positive := func(n *int64) bool { return n != nil && *n > 0 }
	both := u.MemLimit != nil && u.MemSwapLimit != nil && *u.MemSwapLimit <= *u.MemLimit
	if !both && !positive(u.MemFailcnt) && positive(u.MemSwapFailcnt) {
		return "Cgroup memsw limit exceeded"
	}
	return "Cgroup mem limit exceeded"
}
