package report

import (
	"fmt"
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
	hosts int      // that have lines; 0 for devices
}

type chartLine struct {
	name   string
	times  []int64
	values hostapi.Column
	gauge  bool     // a value is the greatest since the previous one, not the mean
	peak   *float64 // the greatest value that was ever measured; nil: that of the line
}

// measure is a quantity that is measured over time.
type measure struct {
	title   string
	unit    unit
	columns []measureColumn                     // for one host they are lines of one chart
	limit   func(h *hostapi.HostUsage) *float64 // nil: there is none
	granted func(limit float64) string          // says that the limit is there to be used up; nil: it is not
}

type measureColumn struct {
	name, text string
	least      float64 // a line or a chart whose greatest value is below it is left out
}

// hostMeasures are in the order of the document.
var hostMeasures = []measure{
	{title: "CPU", unit: cpus,
		granted: func(n float64) string { return count(int64(n), "cpu granted", "cpus granted") },
		columns: []measureColumn{{hostapi.ColumnCPU, "cpus busy", 0}},
		limit: func(h *hostapi.HostUsage) *float64 {
			if h.NCPUs == 0 {
				return nil
			}
			return new(float64(h.NCPUs))
		}},
	{title: "Memory", unit: byteCount,
		columns: []measureColumn{
			{hostapi.ColumnRSSBytes, "in use", 0}, {hostapi.ColumnCacheBytes, "page cache", 10 << 20}},
		limit: func(h *hostapi.HostUsage) *float64 {
			if h.MemLimitBytes == nil {
				return nil
			}
			return new(float64(*h.MemLimitBytes))
		}},
	{title: "Processes and threads", unit: number, columns: []measureColumn{{hostapi.ColumnPids, "alive", 2}}},
	{title: "Files", unit: byteRate, columns: []measureColumn{
		{hostapi.ColumnReadBytes, "read", 100 << 10}, {hostapi.ColumnWriteBytes, "written", 100 << 10}}},
	{title: "Waited", unit: share, columns: []measureColumn{
		{hostapi.ColumnCPUPressure, "for cpus", worthTelling},
		{hostapi.ColumnMemoryPressure, "for memory", worthTelling},
		{hostapi.ColumnIOPressure, "for files", worthTelling}}},
}

var deviceMeasures = []measure{
	{title: "GPU", unit: percent, columns: []measureColumn{{hostapi.ColumnUtilizationPercent, "of the time", 0}}},
	{title: "GPU memory", unit: byteCount, columns: []measureColumn{{hostapi.ColumnDeviceMemBytes, "in use", 0}}},
	{title: "GPU power", unit: watts, columns: []measureColumn{{hostapi.ColumnPowerWatts, "", 0}}},
}

// charts returns the charts of the job, none if no series is known.
func (r *Report) charts() []chart {
	var list []chart
	hosts := r.drawn(mostLines)
	for _, m := range hostMeasures {
		limit := limitOfAll(m, hosts)
		if len(hosts) == 1 && len(r.Hosts) == 1 {
			p := chart{measure: m, limit: limit, hosts: 1}
			for _, c := range m.columns {
				line := chart{measure: m}
				if line.addHost(c.text, hosts[0].HostUsage, c.name); line.most() >= c.least {
					p.lines = append(p.lines, line.lines...)
				}
			}
			list = append(list, p)
			continue
		}
		for i, c := range m.columns { // one line per host
			p := chart{measure: m, limit: limit, hosts: len(hosts)}
			if len(m.columns) > 1 {
				p.title += " " + c.text
			}
			if i > 0 {
				p.limit = nil
			}
			for _, h := range hosts {
				p.addHost(h.name, h.HostUsage, c.name)
			}
			if p.most() >= c.least {
				list = append(list, p)
			}
		}
	}
	list = append(list, r.deviceCharts()...)
	return slices.DeleteFunc(list, func(c chart) bool { return math.IsNaN(c.most()) })
}

// limitOfAll returns the limit that all of the hosts share, or nil.
func limitOfAll(m measure, hosts []drawn) *float64 {
	var limit *float64
	for _, h := range hosts {
		var of *float64
		if m.limit != nil {
			of = m.limit(h.HostUsage)
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
	c.lines = append(c.lines, chartLine{name: name, times: s.Times, values: s.Columns[column],
		gauge: series.IsGauge(column)})
}

// addHost adds a line of a host. The peak of its memory is that of the samples, of which a series
// does not have each.
func (c *chart) addHost(name string, h *hostapi.HostUsage, column string) {
	had := len(c.lines)
	c.add(name, h.Series, column)
	if column == hostapi.ColumnRSSBytes && h.MemBytes != nil && len(c.lines) > had {
		c.lines[had].peak = new(float64(*h.MemBytes))
	}
}

// meaning says what a point of the chart is: "30 s mean".
func (c chart) meaning() string {
	if len(c.lines) == 0 {
		return ""
	}
	step := stepOf(c.lines[0].times)
	switch {
	case step == 0:
		return ""
	case c.lines[0].gauge:
		return "most in " + stepText(step)
	}
	return stepText(step) + " mean"
}

// stepOf returns the usual distance of two points, in seconds; 0 if there are none.
func stepOf(times []int64) int64 {
	var steps []int64
	for i := 1; i < len(times); i++ {
		steps = append(steps, times[i]-times[i-1])
	}
	if len(steps) == 0 {
		return 0
	}
	slices.Sort(steps)
	return steps[len(steps)/2]
}

// stepText is short, to fit beside a title: "30 s", "5 min".
func stepText(seconds int64) string {
	if seconds < 120 {
		return fmt.Sprintf("%d s", seconds)
	}
	return fmt.Sprintf("%d min", (seconds+30)/60)
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
