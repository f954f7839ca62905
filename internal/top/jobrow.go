package top

import (
	"fmt"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
)

// jobRow is a job with its activity since the previous sample. All its texts are printable.
type jobRow struct {
	id, name, user string
	uid            int
	phase          hostapi.Phase
	elapsed, left  *float64 // seconds
	ncpus          int      // 0 is not known
	busy           *float64 // cpus; nil before the second sample
	read, written  *float64 // bytes per second of block devices; nil before the second sample
	gpus           int
	gpuBusy        *float64 // share of the time since the job got them, the mean of all
	gpuIdle        bool     // nothing has run on one of them since, and the job has run for more than idleAfter
	hosts          int
	uses           api.Present
}

// idleAfter is how long a job has run, in seconds, when its unused GPUs count as idle.
const idleAfter = 60

// newJobRow makes the row of a job. Its busy cpus are counted from the sample before.
func newJobRow(j *api.PresentJob, before api.Present) jobRow {
	r := jobRow{
		id: hostapi.Printable(j.ID), name: hostapi.Printable(j.Name), user: hostapi.Printable(j.User), uid: j.UID,
		phase: j.Phase, elapsed: j.Elapsed, left: j.Left, ncpus: j.NCPUs, hosts: j.Hosts, uses: j.UsesHere,
	}
	now, seconds := j.UsesHere, j.UsesHere.At.Sub(before.At).Seconds()
	if before.CPUSeconds != nil && now.CPUSeconds != nil {
		r.busy = rate(*now.CPUSeconds-*before.CPUSeconds, seconds)
	}
	if before.ReadBytes != nil && now.ReadBytes != nil {
		r.read = rate(float64(*now.ReadBytes-*before.ReadBytes), seconds)
	}
	if before.WriteBytes != nil && now.WriteBytes != nil {
		r.written = rate(float64(*now.WriteBytes-*before.WriteBytes), seconds)
	}
	measured, sum := 0, 0.0
	for _, d := range j.Devices {
		if d.Resource != "ngpus" || d.Returned {
			continue
		}
		r.gpus++
		if d.UtilizationPercent != nil {
			measured++
			sum += *d.UtilizationPercent / 100
			r.gpuIdle = r.gpuIdle || *d.UtilizationPercent == 0 && j.Elapsed != nil && *j.Elapsed > idleAfter
		}
	}
	if measured > 0 {
		r.gpuBusy = new(sum / float64(measured))
	}
	return r
}

// rate returns the change per second, or nil if the counter or the clock went back.
func rate(change, seconds float64) *float64 {
	if change < 0 || seconds <= 0 {
		return nil
	}
	return new(change / seconds)
}

// share returns the job's memory as a fraction of its limit.
func (r *jobRow) share() *float64 {
	if r.uses.MemBytes == nil || r.uses.MemLimitBytes == nil || *r.uses.MemLimitBytes <= 0 {
		return nil
	}
	return new(float64(*r.uses.MemBytes) / float64(*r.uses.MemLimitBytes))
}

// cpuShare returns the busy cpus as a fraction of the job's cpus.
func (r *jobRow) cpuShare() *float64 {
	if r.busy == nil || r.ncpus <= 0 {
		return nil
	}
	return new(*r.busy / float64(r.ncpus))
}

// matches reports whether the job's id, user or name contains a text, ignoring case.
func (r *jobRow) matches(text string) bool {
	text = strings.ToLower(text)
	for _, s := range []string{r.id, r.user, r.name} {
		if strings.Contains(strings.ToLower(s), text) {
			return true
		}
	}
	return false
}

func (r *jobRow) cpuText() string {
	if r.ncpus == 0 {
		return cores(r.busy)
	}
	return fmt.Sprintf("%s/%d", cores(r.busy), r.ncpus)
}

func (r *jobRow) memText() string {
	if r.uses.MemBytes == nil {
		return none
	}
	return size(r.uses.MemBytes) + "/" + size(r.uses.MemLimitBytes)
}

func (r *jobRow) gpuText() string {
	switch {
	case r.gpus == 0:
		return none
	case r.gpuBusy == nil:
		return fmt.Sprint(r.gpus)
	}
	return fmt.Sprintf("%d %s%%", r.gpus, percent(r.gpuBusy))
}

// letter returns the job's state as in qstat. P is a job whose programs have not been started.
func (r *jobRow) letter() string {
	switch r.phase {
	case hostapi.PhasePrerun:
		return "P"
	case hostapi.PhaseRunning:
		return "R"
	case hostapi.PhaseSuspended:
		return "S"
	case hostapi.PhaseExiting:
		return "E"
	}
	return "?"
}

func amount(n *int64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}

func whole(n int) *float64 {
	if n == 0 {
		return nil
	}
	return new(float64(n))
}

// idText returns the job's id, or its beginning up to a dot if the id is wider than its column.
func (r *jobRow) idText(width int) string {
	if len(r.id) <= width {
		return r.id
	}
	number, _, _ := strings.Cut(r.id, ".")
	return number
}

// nearFull is the fraction of its limit from which a job's memory is shown in red.
const nearFull = 0.9

// lacksMemory reports whether the job uses nearly all its memory, or lost processes for lack of it.
func (r *jobRow) lacksMemory() bool {
	return r.share() != nil && *r.share() >= nearFull || r.uses.OOMKills != nil && *r.uses.OOMKills > 0
}

// jobColumns are the columns of the table of jobs. A column that has numbers has room for an arrow
// in its heading.
var jobColumns = []column[jobRow]{
	{title: "JOB", width: 9, most: 24, text: func(r *jobRow, width int) string { return r.idText(width) }},
	{title: "NAME", width: 10, most: 40, leaves: 8, text: func(r *jobRow, _ int) string { return text(r.name) }},
	{title: "USER", width: 8, most: 12, leaves: 6, text: func(r *jobRow, _ int) string { return text(r.user) }},
	{title: "S", width: 2, leaves: 7, text: func(r *jobRow, _ int) string { return r.letter() }},
	{
		title: "RUNS", width: 6, right: true, leaves: 14,
		text:    func(r *jobRow, _ int) string { return clock(r.elapsed) },
		sortsBy: func(r *jobRow) *float64 { return r.elapsed },
	},
	{
		title: "LEFT", width: 6, right: true, leaves: 4,
		text:    func(r *jobRow, _ int) string { return clock(r.left) },
		sortsBy: func(r *jobRow) *float64 { return r.left },
	},
	{
		title: "CPU", width: 8, most: 11, right: true, leaves: 1,
		text:    func(r *jobRow, _ int) string { return r.cpuText() },
		sortsBy: func(r *jobRow) *float64 { return r.busy },
	},
	{
		title: "CPU%", width: 5, right: true, leaves: 13,
		text:    func(r *jobRow, _ int) string { return percent(r.cpuShare()) },
		sortsBy: func(r *jobRow) *float64 { return r.cpuShare() },
	},
	{
		title: "MEM", width: 11, right: true, leaves: 2,
		text:    func(r *jobRow, _ int) string { return r.memText() },
		sortsBy: func(r *jobRow) *float64 { return amount(r.uses.MemBytes) },
		warns:   (*jobRow).lacksMemory,
	},
	{
		title: "MEM%", width: 5, right: true, leaves: 3,
		text:    func(r *jobRow, _ int) string { return percent(r.share()) },
		sortsBy: func(r *jobRow) *float64 { return r.share() },
		warns:   (*jobRow).lacksMemory,
	},
	{
		title: "OF", width: 6, spread: 16, leaves: 15,
		text:    func(r *jobRow, width int) string { return bar(r.share(), width) },
		sortsBy: func(r *jobRow) *float64 { return r.share() },
		warns:   (*jobRow).lacksMemory,
	},
	{
		title: "CACHE", width: 6, right: true, leaves: 16,
		text:    func(r *jobRow, _ int) string { return size(r.uses.CacheBytes) },
		sortsBy: func(r *jobRow) *float64 { return amount(r.uses.CacheBytes) },
	},
	{
		title: "READ", width: 6, right: true, leaves: 10, absent: true,
		text:    func(r *jobRow, _ int) string { return size(r.read) },
		sortsBy: func(r *jobRow) *float64 { return r.read },
	},
	{
		title: "WRITE", width: 6, right: true, leaves: 10, absent: true,
		text:    func(r *jobRow, _ int) string { return size(r.written) },
		sortsBy: func(r *jobRow) *float64 { return r.written },
	},
	{
		title: "PIDS", width: 5, right: true, leaves: 12,
		text:    func(r *jobRow, _ int) string { return count(r.uses.Pids) },
		sortsBy: func(r *jobRow) *float64 { return amount(r.uses.Pids) },
	},
	{
		title: "GPU", width: 6, right: true, leaves: 9, absent: true,
		text:    func(r *jobRow, _ int) string { return r.gpuText() },
		sortsBy: func(r *jobRow) *float64 { return whole(r.gpus) },
		warns:   func(r *jobRow) bool { return r.gpuIdle },
	},
	{
		title: "OOM", width: 4, right: true, leaves: 11,
		text:    func(r *jobRow, _ int) string { return count(r.uses.OOMKills) },
		sortsBy: func(r *jobRow) *float64 { return amount(r.uses.OOMKills) },
		warns:   func(r *jobRow) bool { return r.uses.OOMKills != nil && *r.uses.OOMKills > 0 },
	},
	{title: "STATE", width: 9, leaves: 18, text: func(r *jobRow, _ int) string { return text(string(r.phase)) }},
	{
		title: "HOSTS", width: 6, right: true, leaves: 17,
		text:    func(r *jobRow, _ int) string { return hosts(r) },
		sortsBy: func(r *jobRow) *float64 { return whole(r.hosts) },
	},
}

func hosts(r *jobRow) string {
	if r.hosts == 0 {
		return none
	}
	return fmt.Sprint(r.hosts)
}

// text returns s, or none if s is empty.
func text(s string) string {
	if s == "" {
		return none
	}
	return s
}
