package report

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/series"
)

// mostLines is how many hosts, or devices, are drawn into one chart.
const mostLines = 8

// chart is the usage of one thing over time.
type chart struct {
	measure
	lines []chartLine
	limit *float64 // of each line; nil if there is none, or they differ
}

type chartLine struct {
	name   string
	times  []int64
	values hostapi.Column
}

// measure is a quantity that is measured over time.
type measure struct {
	title   string
	unit    unit
	columns []measureColumn                     // for one host they are lines of one chart
	least   float64                             // values below it are not significant
	limit   func(h *hostapi.HostUsage) *float64 // nil: there is none
}

type measureColumn struct{ name, text string }

// hostMeasures are in the order of the document.
var hostMeasures = []measure{
	{title: "CPU", unit: cpus, columns: []measureColumn{{hostapi.ColumnCPU, "cpus busy"}},
		limit: func(h *hostapi.HostUsage) *float64 {
			if h.NCPUs == 0 {
				return nil
			}
			n := float64(h.NCPUs)
			return &n
		}},
	{title: "Memory", unit: byteCount,
		columns: []measureColumn{{hostapi.ColumnRSSBytes, "in use"}, {hostapi.ColumnCacheBytes, "page cache"}},
		limit: func(h *hostapi.HostUsage) *float64 {
			if h.MemLimitBytes == nil {
				return nil
			}
			bytes := float64(*h.MemLimitBytes)
			return &bytes
		}},
	{title: "Processes and threads", unit: number, least: 2,
		columns: []measureColumn{{hostapi.ColumnPids, "alive"}}},
	{title: "Files", unit: byteRate, least: 100 << 10, columns: []measureColumn{
		{hostapi.ColumnReadBytes, "read"}, {hostapi.ColumnWriteBytes, "written"}}},
	{title: "Waited", unit: share, least: worthTelling, columns: []measureColumn{
		{hostapi.ColumnCPUPressure, "for cpus"}, {hostapi.ColumnMemoryPressure, "for memory"},
		{hostapi.ColumnIOPressure, "for files"}}},
}

var deviceMeasures = []measure{
	{title: "GPU", unit: percent, columns: []measureColumn{{hostapi.ColumnUtilizationPercent, "of the time"}}},
	{title: "GPU memory", unit: byteCount, columns: []measureColumn{{hostapi.ColumnDeviceMemBytes, "in use"}}},
	{title: "GPU power", unit: watts, columns: []measureColumn{{hostapi.ColumnPowerWatts, ""}}},
}

// charts returns the charts of the job, none if no series is known. For a job with many hosts they
// show those of spreadHosts.
func (r *Report) charts() []chart {
	var list []chart
	hosts := r.spreadHosts()
	for _, m := range hostMeasures {
		limit := r.limitOfAll(m, hosts)
		if len(hosts) == 1 {
			p := chart{measure: m, limit: limit}
			for _, c := range m.columns {
				p.add(c.text, r.Hosts[hosts[0]].Series, c.name)
			}
			list = append(list, p)
			continue
		}
		for i, c := range m.columns { // one line per host
			p := chart{measure: m, limit: limit}
			if len(m.columns) > 1 {
				p.title += " " + c.text
			}
			if i > 0 {
				p.limit = nil
			}
			for _, host := range hosts {
				p.add(host, r.Hosts[host].Series, c.name)
			}
			list = append(list, p)
		}
	}
	list = append(list, r.deviceCharts()...)
	return slices.DeleteFunc(list, func(c chart) bool { return !(c.most() >= c.least) })
}

// limitOfAll returns the limit that all of the hosts share, or nil.
func (r *Report) limitOfAll(m measure, hosts []string) *float64 {
	var limit *float64
	for _, host := range hosts {
		var of *float64
		if m.limit != nil {
			of = m.limit(r.Hosts[host])
		}
		if of == nil || limit != nil && *limit != *of {
			return nil
		}
		limit = of
	}
	return limit
}

// deviceCharts returns charts of the first devices that have a series: a job on many hosts has more
// devices than anyone can distinguish.
func (r *Report) deviceCharts() []chart {
	var list []chart
	for _, m := range deviceMeasures {
		p := chart{measure: m}
		for _, g := range r.gpus() {
			if len(p.lines) < mostLines {
				p.add(r.gpuName(g), g.Series, m.columns[0].name)
			}
		}
		list = append(list, p)
	}
	return list
}

// add adds a line if the column was measured.
func (c *chart) add(name string, s *hostapi.Series, column string) {
	if s == nil || s.Columns[column] == nil || s.Check() != nil {
		return
	}
	c.lines = append(c.lines, chartLine{name, s.Times, s.Columns[column]})
}

// most returns the greatest value of a line; NaN if none was measured.
func (l chartLine) most() float64 { return series.Greatest(l.values) }

func (c chart) most() float64 {
	var each hostapi.Column
	for _, l := range c.lines {
		each = append(each, l.most())
	}
	return series.Greatest(each)
}

// spreadHosts returns the hosts to draw, from those that have a series. If there are too many to
// distinguish, it selects hosts spread evenly by cpu time: the least, the most and some in between.
func (r *Report) spreadHosts() []string {
	hosts := slices.DeleteFunc(r.hostNames(), func(host string) bool { return r.Hosts[host].Series == nil })
	if len(hosts) <= mostLines {
		return hosts
	}
	cput := func(host string) float64 {
		if seconds := r.Hosts[host].CPUTSeconds; seconds != nil {
			return *seconds
		}
		return -1
	}
	slices.SortStableFunc(hosts, func(a, b string) int { return cmp.Compare(cput(a), cput(b)) })
	spread := make([]string, mostLines)
	for i := range spread {
		spread[i] = hosts[i*(len(hosts)-1)/(mostLines-1)]
	}
	return spread
}

// chartSpan returns the start and end of the charts: all charts of a report have the same time
// axis. The time zone is the report's.
func (r *Report) chartSpan(charts []chart) (from, to time.Time) {
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for _, p := range charts {
		for _, l := range p.lines {
			if n := len(l.times); n > 0 {
				first, last = min(first, l.times[0]), max(last, l.times[n-1])
			}
		}
	}
	zone := time.UTC
	if r.Start != nil {
		zone = r.Start.Location()
		first = min(first, max(r.Start.Unix(), first-(last-first)))
	}
	if r.End != nil && last < r.End.Unix() && r.End.Unix()-last < last-first {
		last = r.End.Unix()
	}
	return time.Unix(first, 0).In(zone), time.Unix(max(last, first+1), 0).In(zone)
}
