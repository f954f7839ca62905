package report

import (
	"math"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/series"
)

// drawn is what plots have a line of: a host, or one of three figures over many hosts.
type drawn struct {
	name string
	*hostapi.HostUsage
}

// mostCells is how many points the lines over many hosts have.
const mostCells = 120

// withSeries returns the hosts that have a series.
func (r *Report) withSeries() []drawn {
	var list []drawn
	for _, name := range r.hostNames() {
		if s := r.Hosts[name].Series; s != nil && s.Check() == nil && len(s.Times) > 0 {
			list = append(list, drawn{name, r.Hosts[name]})
		}
	}
	return list
}

// someHosts names the hosts that have a series, if others have none.
func (r *Report) someHosts() string {
	var names []string
	for _, h := range r.withSeries() {
		names = append(names, h.name)
	}
	if len(names) == len(r.allHosts()) {
		return ""
	}
	return printable(named(names))
}

// drawn returns the hosts that have a series, if there are at most so many. Of more, it returns
// three in their place: at each time, the greatest of all, the median and the least. These show how
// even the job is, whatever the number of its hosts.
func (r *Report) drawn(most int) []drawn {
	if list := r.withSeries(); len(list) <= most {
		return list
	}
	return extremes(r.withSeries())
}

// extremes returns the three figures over hosts. What all hosts have in common is theirs, too.
func extremes(hosts []drawn) []drawn {
	first, last, points := hosts[0].Series.Times[0], hosts[0].Series.Times[0], 0
	for _, h := range hosts {
		times := h.Series.Times
		begin := times[0] - stepOf(times) // a point covers the time before it
		first, last, points = min(first, begin), max(last, times[len(times)-1]), max(points, len(times))
	}
	points = min(points, mostCells, int(max(last-first, 1)))
	first = min(first, last-1)
	list := []drawn{{"max", &hostapi.HostUsage{}}, {"median", &hostapi.HostUsage{}}, {"min", &hostapi.HostUsage{}}}
	for i := range list {
		h := list[i].HostUsage
		h.NCPUs, h.MemLimitBytes = hosts[0].NCPUs, hosts[0].MemLimitBytes
		for _, other := range hosts {
			if other.NCPUs != h.NCPUs {
				h.NCPUs = 0
			}
			if h.MemLimitBytes != nil && (other.MemLimitBytes == nil || *other.MemLimitBytes != *h.MemLimitBytes) {
				h.MemLimitBytes = nil
			}
			if i == 0 && other.MemBytes != nil && (h.MemBytes == nil || *other.MemBytes > *h.MemBytes) {
				h.MemBytes = other.MemBytes
			}
		}
		h.Series = &hostapi.Series{Columns: map[string]hostapi.Column{}}
		for k := range points {
			h.Series.Times = append(h.Series.Times, first+(last-first)*int64(k+1)/int64(points))
		}
	}
	for _, column := range columnsOf(hosts) {
		var values [][]float64 // by host
		for _, h := range hosts {
			values = append(values, series.Spread(h.Series, column, first, last, points))
		}
		for k := range points {
			var at []float64
			for _, of := range values {
				if !math.IsNaN(of[k]) {
					at = append(at, of[k])
				}
			}
			slices.Sort(at)
			for i, of := range []int{len(at) - 1, (len(at) - 1) / 2, 0} {
				value := math.NaN()
				if len(at) > 0 {
					value = at[of]
				}
				s := list[i].Series
				s.Columns[column] = append(s.Columns[column], value)
			}
		}
	}
	return list
}

// columnsOf returns the columns that any of the hosts has.
func columnsOf(hosts []drawn) []string {
	var names []string
	for _, h := range hosts {
		for name := range h.Series.Columns {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
