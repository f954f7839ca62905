package main

import (
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/pbs"
)

// oomLines bounds what the job's stderr gets; the count tells the rest.
const oomLines = 8

// tellOOM adds what is to be said about kills that the kernel made for lack of memory. Counters say that it
// killed; its log says whom, as far as it still holds the lines.
func (h *hook) tellOOM(out *hostapi.Outcome, j *cgroup.Job, s state, kills int64) {
	var records []oomKill
	r, err := h.kmsg()
	if err == nil {
		records, err = readOOM(r, j.MemoryPath(), s.BegunMicros)
		r.Close()
	}
	if err != nil {
		h.log.WithFields(logFields(j)).Warnf("read kernel log: %v", err)
	}
	u, _ := j.Usage()
	what := exceeded(u, records)
	out.Diag = what
	for i, k := range records {
		if i == oomLines {
			out.JobStderr = append(out.JobStderr, fmt.Sprintf("%s: and %d more", what, len(records)-oomLines))
			break
		}
		out.JobStderr = append(out.JobStderr, what+": "+k.line)
	}
	if len(records) == 0 {
		line := fmt.Sprintf("%s: the kernel killed %d of the job's processes", what, kills)
		if u.MemLimit != nil {
			line += fmt.Sprintf(" (limit %s)", pbs.Size(*u.MemLimit).KB())
		}
		out.JobStderr = append(out.JobStderr, line)
	}
	out.Notes = append(out.Notes, out.JobStderr...)
}

// exceeded names the limit that was hit, in the words of pbs_cgroups. failcnt alone is no kill, it only tells two
// limits apart once there was one.
func exceeded(u cgroup.Usage, records []oomKill) string {
	positive := func(n *int64) bool { return n != nil && *n > 0 }
	for _, k := range records {
		if k.global {
			return "Host memory exhausted"
		}
	}
	if !positive(u.MemFailcnt) && positive(u.MemSwapFailcnt) {
		return "Cgroup memsw limit exceeded"
	}
	return "Cgroup mem limit exceeded"
}
