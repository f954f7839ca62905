package report

import (
	"bytes"
	"encoding/csv"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// A csvColumn is a column of the csv format. Columns are only ever added at the end, because
// programs also read them by position. An empty cell is unknown.
type csvColumn struct {
	name string
	of   func(r *Report, t totals) string
}

// csvColumns are documented in docs/reports.md.
var csvColumns = []csvColumn{
	{"job", func(r *Report, _ totals) string { return harmless(r.Job) }},
	{"name", func(r *Report, _ totals) string { return harmless(r.Name) }},
	{"owner", func(r *Report, _ totals) string { return harmless(r.Owner) }},
	{"queue", ofJob(func(j *hostapi.Job) string { return j.Queue })},
	{"project", ofJob(func(j *hostapi.Job) string { return j.Project })},
	{"account", ofJob(func(j *hostapi.Job) string { return j.Account })},
	{"start", func(r *Report, _ totals) string { return csvTime(r.Start) }},
	{"end", func(r *Report, _ totals) string { return csvTime(r.End) }},
	{"exit_status", func(r *Report, _ totals) string { return csvCell(r.ExitStatus, strconv.Itoa) }},
	{"walltime_seconds", func(_ *Report, t totals) string { return csvCell(t.walltime, csvSeconds) }},
	{"walltime_requested_seconds", func(_ *Report, t totals) string { return csvCell(t.wallLimit, csvSeconds) }},
	{"hosts", func(r *Report, _ totals) string { return harmless(strings.Join(r.hostNames(), " ")) }},
	{"missing_hosts", func(r *Report, _ totals) string {
		return harmless(strings.Join(slices.Sorted(maps.Keys(r.Missing)), " "))
	}},
	{"ncpus", func(_ *Report, t totals) string {
		if t.ncpus == 0 {
			return ""
		}
		return strconv.Itoa(t.ncpus)
	}},
	{"cput_seconds", func(_ *Report, t totals) string { return csvCell(t.cput, csvSeconds) }},
	{"cpu_efficiency", func(_ *Report, t totals) string { return csvRatio(t.cpuEfficiency()) }},
	{"mem_bytes", func(_ *Report, t totals) string { return csvCell(t.mem, csvInt) }},
	{"mem_limit_bytes", func(_ *Report, t totals) string { return csvCell(t.memLimit, csvInt) }},
	{"mem_efficiency", func(_ *Report, t totals) string { return csvRatio(t.memEfficiency()) }},
	{"oom_kills", func(r *Report, _ totals) string {
		return csvSum(r, func(h *hostapi.HostUsage) *int64 { return h.OOMKills }, csvInt)
	}},
	{"throttled_seconds", func(r *Report, _ totals) string {
		return csvSum(r, func(h *hostapi.HostUsage) *float64 { return h.ThrottledSeconds }, csvFloat)
	}},
	{"cput_imbalance", func(r *Report, _ totals) string {
		if r.Imbalance == nil || r.Imbalance.CPUT == nil {
			return ""
		}
		return csvFloat(r.Imbalance.CPUT.Ratio)
	}},
	{"gpus", func(r *Report, _ totals) string {
		if n := len(r.gpus()); n > 0 {
			return strconv.Itoa(n)
		}
		return ""
	}},
	{"gpu_utilization_percent", func(r *Report, _ totals) string {
		mean, ok := r.gpuUtilization()
		if !ok {
			return ""
		}
		return csvFloat(mean)
	}},
	{"notes", func(r *Report, _ totals) string { return harmless(strings.Join(r.Notes, "; ")) }},
	{"energy_joules", func(r *Report, _ totals) string { return csvCell(r.energy(), csvFloat) }},
	{"billing", func(r *Report, _ totals) string { return csvCell(r.billing(), csvFloat) }},
	{"state", func(r *Report, _ totals) string { return r.Outcome.State }},
	{"outcome", func(r *Report, _ totals) string {
		if r.Start == nil && r.End == nil {
			return ""
		}
		return r.Outcome.Words
	}},
	{"walltime_efficiency", func(_ *Report, t totals) string {
		if t.walltime == nil || t.wallLimit == nil || *t.wallLimit <= 0 {
			return ""
		}
		return csvRatio(t.walltime.Seconds()/t.wallLimit.Seconds(), true)
	}},
}

// writeCSV writes a line with the column names, and the rows, according to RFC 4180.
func writeCSV(w io.Writer, columns []csvColumn, rows iter.Seq[row]) error {
	var text bytes.Buffer // a row is one write, so that its characters are not split
	table := csv.NewWriter(&text)
	write := func(cells []string) error {
		text.Reset()
		table.Write(cells)
		if table.Flush(); table.Error() != nil {
			return table.Error()
		}
		_, err := w.Write(text.Bytes())
		return err
	}
	names := make([]string, len(columns))
	for i, column := range columns {
		names[i] = column.name
	}
	if err := write(names); err != nil {
		return err
	}
	for r := range rows {
		if err := write(r.cells); err != nil {
			return err
		}
	}
	return nil
}

// harmless returns text that no spreadsheet runs as a formula. If a character that starts a formula
// comes first, even after blanks, an apostrophe is put before the text.
func harmless(text string) string {
	text = printable(text)
	if first := strings.TrimLeft(text, " "); first != "" && strings.ContainsRune("=+-@", rune(first[0])) {
		return "'" + text
	}
	return text
}

func ofJob(of func(*hostapi.Job) string) func(*Report, totals) string {
	return func(r *Report, _ totals) string {
		if r.PBSJob == nil {
			return ""
		}
		return harmless(of(r.PBSJob))
	}
}

// csvSum returns the sum over the hosts, or "" if one of them did not report.
func csvSum[T int64 | float64](r *Report, of func(*hostapi.HostUsage) *T, format func(T) string) string {
	var sum T
	for _, host := range r.hostNames() {
		v := of(r.Hosts[host])
		if v == nil {
			return ""
		}
		sum += *v
	}
	if len(r.Hosts) == 0 {
		return ""
	}
	return format(sum)
}

func csvCell[T any](v *T, format func(T) string) string {
	if v == nil {
		return ""
	}
	return format(*v)
}

func csvTime(t *time.Time) string {
	return csvCell(t, func(t time.Time) string { return t.Format(time.RFC3339) })
}

func csvRatio(v float64, ok bool) string {
	if !ok {
		return ""
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

func csvSeconds(d time.Duration) string { return csvFloat(d.Seconds()) }
func csvInt(n int64) string             { return strconv.FormatInt(n, 10) }

// csvFloat formats with up to 3 decimals, without trailing zeros.
func csvFloat(f float64) string { return trimmed(f, 3) }
