package top

import (
	"strconv"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
)

// processRow is a process of a job with its activity since the previous sample. All its texts are
// printable.
type processRow struct {
	pid, threads int
	user, state  string
	busy         *float64 // cpus; nil before the second sample
	cpu          float64  // seconds
	rss          int64    // bytes
	comm         string
}

// processID identifies a process even if its pid is reused.
type processID struct {
	pid   int
	start uint64
}

func newProcessRow(p *api.JobProcess, before api.JobProcess, user string) processRow {
	r := processRow{
		pid: p.PID, threads: p.Threads, user: hostapi.Printable(user), state: hostapi.Printable(p.State),
		cpu: p.CPUSeconds, rss: p.RSSBytes, comm: hostapi.Printable(p.Comm),
	}
	if before.PID != 0 {
		r.busy = rate(p.CPUSeconds-before.CPUSeconds, p.At.Sub(before.At).Seconds())
	}
	return r
}

// processColumns are the columns of the table of a job's processes.
var processColumns = []column[processRow]{
	{
		title: "PID", width: 10, right: true, text: func(r *processRow, _ int) string { return strconv.Itoa(r.pid) },
		sortsBy: func(r *processRow) *float64 { return whole(r.pid) },
	},
	{title: "USER", width: 8, most: 16, leaves: 3, text: func(r *processRow, _ int) string { return text(r.user) }},
	{title: "S", width: 2, leaves: 4, text: func(r *processRow, _ int) string { return r.state }},
	{
		title: "CPU%", width: 6, right: true, text: func(r *processRow, _ int) string { return percent(r.busy) },
		sortsBy: func(r *processRow) *float64 { return r.busy },
	},
	{
		title: "TIME", width: 6, right: true, leaves: 5,
		text:    func(r *processRow, _ int) string { return clock(&r.cpu) },
		sortsBy: func(r *processRow) *float64 { return &r.cpu },
	},
	{
		title: "RSS", width: 6, right: true, leaves: 1,
		text:    func(r *processRow, _ int) string { return size(&r.rss) },
		sortsBy: func(r *processRow) *float64 { return amount(&r.rss) },
	},
	{
		title: "THREADS", width: 8, right: true, leaves: 6,
		text:    func(r *processRow, _ int) string { return strconv.Itoa(r.threads) },
		sortsBy: func(r *processRow) *float64 { return whole(r.threads) },
	},
	{title: "COMMAND", width: 16, leaves: 2, text: func(r *processRow, _ int) string { return text(r.comm) }},
}
