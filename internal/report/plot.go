package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/series"
)

const (
	mostPlotted   = 4 // hosts, and GPUs
	leastPoints   = 3 // a shorter series is not plotted
	plotAmount    = len("  most 123.4 GiB of 123.4 GiB")
	leastPlotted  = 10
	worthPlotting = 10 << 20 // bytes per second that were read or written
	longWait      = 0.1      // part of the time that processes waited
)

// Heights of a plot's columns, from the lowest up. A blank means not measured.
var (
	blockHeights = []rune("▁▂▃▄▅▆▇█")
	asciiHeights = []rune("_.:-=+*#")
)

// plot is one line: the usage of a host or a GPU over time.
type plot struct {
	label  string
	series *hostapi.Series
	column string
	full   float64 // of the highest column; 0 means the greatest value
	amount func(most float64) string
	least  float64 // if its greatest value is less, the plot would be a flat line and is left out
}

// writePlots plots the job's usage over time, if there are series.
func (r *Report) writePlots(p *page) {
	plots := slices.DeleteFunc(r.plots(), func(l plot) bool { return !l.shown() })
	from, to, ok := r.span(plots)
	if !ok {
		return
	}
	width := 0
	for _, l := range plots {
		width = max(width, utf8.RuneCountInString(printable(l.label))+3)
	}
	p.names = max(min(width, nameWidth), labelWidth)
	cells := max(p.columns-p.names-len("||")-plotAmount, leastPlotted)
	zone := time.Now().Location()
	if r.Start != nil {
		zone = r.Start.Location()
	}
	first, last := time.Unix(from, 0).In(zone), time.Unix(to, 0).In(zone)
	layout := "15:04:05"
	if first.Format(dayLayout) != last.Format(dayLayout) {
		layout = "2006-01-02 15:04"
	}
	text := fmt.Sprintf("%s to %s, %s a character", first.Format(layout), last.Format(layout),
		clock(time.Duration(float64(to-from)/float64(cells)*float64(time.Second))))
	if step := stepOf(plots[0].series.Times); step > 0 {
		text += "; cpu is the mean of " + stepText(step)
	}
	p.line("Over time", "%s", text)
	for _, l := range plots {
		p.plot(l, series.Spread(l.series, l.column, from, to, cells))
	}
	if n := len(r.withSeries()); n > mostPlotted {
		fmt.Fprintf(p, "  max, median and min of %d hosts at each time\n", n)
	} else if hosts := r.someHosts(); hosts != "" {
		fmt.Fprintf(p, "  of %s alone; on the other hosts, hookhost report %s shows theirs\n", hosts, printable(r.Job))
	}
}

// plot writes "  cpu n1  |..::--==++**##|  most 7.9 of 8 cpus".
func (p *page) plot(l plot, values []float64) {
	heights := asciiHeights
	if p.blocks {
		heights = blockHeights
	}
	full, most := l.full, l.most()
	if full == 0 || most > full {
		full = most
	}
	var b strings.Builder
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case full <= 0:
			b.WriteRune(heights[0])
		default:
			b.WriteRune(heights[min(max(int(v/full*float64(len(heights))), 0), len(heights)-1)])
		}
	}
	label := "  " + printable(l.label)
	if utf8.RuneCountInString(label) >= p.names {
		label = string([]rune(label)[:p.names-2]) + "~"
	}
	pad := strings.Repeat(" ", p.names-utf8.RuneCountInString(label))
	fmt.Fprintf(p, "%s%s|%s|  %s\n", label, pad, b.String(), l.amount(most))
}

// most returns the greatest value of the series, NaN if none was measured.
func (l plot) most() float64 { return series.Greatest(l.series.Columns[l.column]) }

func (l plot) shown() bool {
	if l.series == nil || len(l.series.Times) < leastPoints {
		return false
	}
	most := l.most()
	return !math.IsNaN(most) && most >= l.least
}

// span returns the time range of the plots: the whole job if that is known.
func (r *Report) span(plots []plot) (from, to int64, ok bool) {
	if len(plots) == 0 {
		return 0, 0, false
	}
	from, to = math.MaxInt64, math.MinInt64
	for _, l := range plots {
		from, to = min(from, l.series.Times[0]), max(to, l.series.Times[len(l.series.Times)-1])
	}
	if r.Start != nil {
		from = min(from, r.Start.Unix())
	}
	if r.End != nil {
		to = max(to, r.End.Unix())
	}
	return from, to, to > from
}

// plots returns all possible lines, with hosts to compare below each other.
func (r *Report) plots() []plot {
	hosts := r.drawn(mostPlotted)
	var cpu, memory, rest []plot
	for _, h := range hosts {
		of := func(what, column string, full, least float64, amount func(float64) string) plot {
			if len(r.Hosts) > 1 {
				what += " " + h.name
			}
			return plot{label: what, series: h.Series, column: column, full: full, least: least, amount: amount}
		}
		// A job with ncpus=0 shares cpus: its plot shows one cpu, or more if it used more.
		cpus := float64(max(h.NCPUs, 1))
		cpu = append(cpu, of("cpu", hostapi.ColumnCPU, cpus, cpus/8, func(most float64) string {
			if h.NCPUs == 0 {
				return fmt.Sprintf("most %.1f cpus", most)
			}
			return fmt.Sprintf("most %.1f of %s", most, count(int64(h.NCPUs), "cpu", "cpus"))
		}))
		limit := 0.0
		if h.MemLimitBytes != nil {
			limit = float64(*h.MemLimitBytes)
		}
		memory = append(memory, of("memory", hostapi.ColumnRSSBytes, limit, limit/8, func(most float64) string {
			if h.MemBytes != nil { // no series has every sample
				most = max(most, float64(*h.MemBytes))
			}
			if limit == 0 {
				return "most " + size(most)
			}
			return fmt.Sprintf("most %s of %s", size(most), size(limit))
		}))
		rate := func(most float64) string { return "most " + size(most) + "/s" }
		part := func(most float64) string { return fmt.Sprintf("most %.0f%% of the time", 100*most) }
		rest = append(rest,
			of("read", hostapi.ColumnReadBytes, 0, worthPlotting, rate),
			of("write", hostapi.ColumnWriteBytes, 0, worthPlotting, rate),
			of("waits for memory", hostapi.ColumnMemoryPressure, 1, longWait, part),
			of("waits for files", hostapi.ColumnIOPressure, 1, longWait, part))
	}
	return slices.Concat(cpu, memory, r.gpuPlots(), rest)
}

func (r *Report) gpuPlots() []plot {
	var plots []plot
	for i, g := range r.gpus() {
		if i == mostPlotted {
			break
		}
		plots = append(plots, plot{label: "gpu " + r.gpuName(g), series: g.Series,
			column: hostapi.ColumnUtilizationPercent, full: 100,
			amount: func(most float64) string { return fmt.Sprintf("most %.0f%%", most) }})
	}
	return plots
}
