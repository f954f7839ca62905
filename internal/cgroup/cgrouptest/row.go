package cgrouptest

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Row reports how long something took compared with its floor, measured alternately. It prints that
// as a row of the table in docs/performance.md.
func Row(b *testing.B, what string, ours, floor []time.Duration, goal string) {
	b.Helper()
	slices.Sort(ours)
	slices.Sort(floor)
	ratio := float64(median(ours)) / float64(median(floor))
	b.ReportMetric(milliseconds(median(ours)), "median-ms")
	b.ReportMetric(milliseconds(percentile(ours)), "p99-ms")
	b.ReportMetric(milliseconds(median(floor)), "floor-ms")
	b.ReportMetric(ratio, "ratio")
	b.ReportMetric(0, "ns/op")
	fmt.Printf("\n| %s | %s | %s | %.1f | %s |\n", what, spread(ours), spread(floor), ratio, goal)
}

// Line prints a row for a figure without a ratio.
func Line(b *testing.B, what, figure, limit, goal string) {
	b.Helper()
	fmt.Printf("\n| %s | %s | %s | – | %s |\n", what, figure, limit, goal)
}

// Beyond reports how much longer something took than the median of its floor, as Row does.
func Beyond(b *testing.B, what string, beyond, floor []time.Duration, goal string) {
	b.Helper()
	slices.Sort(beyond)
	slices.Sort(floor)
	b.ReportMetric(milliseconds(median(beyond)), "beyond-median-ms")
	b.ReportMetric(milliseconds(percentile(beyond)), "beyond-p99-ms")
	Line(b, what, spread(beyond), spread(floor), goal)
}

// Median returns the median of a distribution.
func Median(d []time.Duration) time.Duration { return median(slices.Sorted(slices.Values(d))) }

func median(sorted []time.Duration) time.Duration { return sorted[(len(sorted)-1)/2] }

// percentile returns the duration that 99 % do not exceed.
func percentile(sorted []time.Duration) time.Duration { return sorted[(99*len(sorted)+99)/100-1] }

// spread describes a distribution: median, 99 % if there are at least a hundred, least and
// greatest.
func spread(sorted []time.Duration) string {
	text := fmt.Sprintf("%.2f", milliseconds(median(sorted)))
	if len(sorted) >= 100 {
		text += fmt.Sprintf(" / %.2f", milliseconds(percentile(sorted)))
	}
	return text + fmt.Sprintf(" ms, %.2f to %.2f", milliseconds(sorted[0]), milliseconds(sorted[len(sorted)-1]))
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }
