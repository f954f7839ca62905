package report

import (
	"fmt"
	"strings"
	"time"
)

// Advice is a suggestion for the job's owner: what to do better next time, or what went wrong.
type Advice struct {
	Try  string `json:"try,omitempty"`  // a request for qsub -l: "mem=600mb"; "" if there is no figure
	Text string `json:"text"`           // the reason
	Link string `json:"link,omitempty"` // where to read more about it
	Site bool   `json:"site,omitempty"` // it is the site's own
}

// try returns advice to request something else.
func try(request, text string) Advice { return Advice{Try: request, Text: text} }

// String returns the suggestion and its reason on one line.
func (a Advice) String() string {
	text := a.Text
	if a.Try != "" {
		text = "try " + a.Try + ": " + text
	}
	if a.Link != "" {
		text += " " + a.Link
	}
	return text
}

// Thresholds for advice.
const (
	adviceAfter = 10 * time.Second // a shorter job is mostly start-up
	lowCPU      = 0.65             // cput / (walltime*ncpus); below it jobstats marks a job red
	idleCPUs    = 0.01             // cpus busy on average
	throttled   = 0.10             // of the cpu time that the job could have had
	unevenCPU   = 1.25             // cput of the busiest host / the mean of all
	unevenAfter = time.Minute      // a shorter job's start is uneven on any hosts
)

// advice returns suggestions for the job's owner, what ended the job first: what slowed the job
// down, and what to request instead. A running job also gets CPU advice, because its average is
// always known. It gets no memory advice, because its peak may be yet to come.
func (r *Report) advice() []Advice {
	t := r.totals()
	var list []Advice
	add := func(a Advice) {
		if a.Text != "" {
			list = append(list, a)
		}
	}
	if t.oomKills > 0 || r.Outcome.State == stateOOM {
		add(r.oomAdvice(t))
	}
	if t.walltime == nil || *t.walltime < adviceAfter {
		return list
	}
	add(r.timeoutAdvice(t))
	add(r.grantAdvice())
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
		add(Advice{Text: fmt.Sprintf("throttled: the cpu quota held the job back for %.0f%% of its cpu time; ask for "+
			"more ncpus or start fewer threads", 100*part)})
	}
	if r.askedMem() && !t.exclusive && t.oomKills == 0 && r.End != nil && len(r.Missing) == 0 {
		add(r.memAdvice())
	}
	add(r.walltimeAdvice(t))
	return list
}

// cpuAdvice is for jobs that used one of their cpus, or none. An average does not show whether a
// job used few cpus all the time or all of them at times. So other jobs get no number to request.
func (t totals) cpuAdvice() Advice {
	eff, ok := t.cpuUse()
	if !ok || eff >= lowCPU {
		return Advice{}
	}
	cpus := count(int64(t.ncpus), "cpu", "cpus")
	busy := eff * float64(t.ncpus)
	switch {
	case busy < idleCPUs*float64(max(t.hosts, 1)):
		return Advice{Text: fmt.Sprintf("idle: %s of cpu time in %s", cpuTime(t.cput.Seconds()), clock(*t.walltime))}
	case busy >= 0.85 && busy <= 1.1 && t.ncpus > 1 && t.hosts <= 1 && !t.exclusive:
		return try("ncpus=1", fmt.Sprintf("one of %s was used, as by a program that is not parallel", cpus))
	}
	return Advice{}
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

// imbalanceAdvice names hosts that were idle, else those with the most and the least cpu time, if
// all had as many cpus.
func (r *Report) imbalanceAdvice(walltime time.Duration) Advice {
	if i := r.Imbalance; i == nil || i.CPUT == nil || i.CPUT.Ratio < unevenCPU || !r.alike() {
		return Advice{}
	}
	least, most := "", r.Imbalance.CPUT.Host
	var idle []string
	for _, host := range r.hostNames() {
		used := r.Hosts[host].CPUTSeconds
		if used == nil {
			return Advice{}
		}
		if least == "" || *used < *r.Hosts[least].CPUTSeconds {
			least = host
		}
		if *used < idleCPUs*walltime.Seconds() {
			idle = append(idle, host)
		}
	}
	low, high := *r.Hosts[least].CPUTSeconds, *r.Hosts[most].CPUTSeconds
	switch n := len(idle); {
	case n == len(r.Hosts):
		return Advice{}
	case n > 0:
		return Advice{Text: fmt.Sprintf("%d of %d hosts %s idle: %s; start the program on all hosts, as mpirun does, "+
			"or request fewer", n, len(r.Hosts), wereOrWas(n), named(idle))}
	}
	return Advice{Text: fmt.Sprintf("uneven work: %s used %.1f times the cpu time of %s, %s and %s", most, high/low,
		least, duration(high), duration(low))}
}

// texts returns advice as it stands among the notes.
func texts(advice []Advice) []string {
	var list []string
	for _, a := range advice {
		list = append(list, a.String())
	}
	return list
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
