package cgrouptest

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Row reports how long something took beside its floor, in turns with it, and logs that as a row of
// the table of docs/performance.md.
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
	b.Logf("| %s | %s | %s | %.1f | %s |", what, spread(ours), spread(floor), ratio, goal)
}

// Line logs a row of what has no ratio.
func Line(b *testing.B, what, figure, limit, goal string) {
	b.Helper()
	b.Logf("| %s | %s | %s | – | %s |", what, figure, limit, goal)
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

func median(sorted []time.Duration) time.Duration { return sorted[len(sorted)/2] }

func percentile(sorted []time.Duration) time.Duration { return sorted[99*(len(sorted)-1)/100] }

// spread is a distribution as text: median, 99 %, and from the least to the most.
func spread(sorted []time.Duration) string {
	first, last := sorted[0], sorted[len(sorted)-1]
	return fmt.Sprintf("%.2f / %.2f ms, %.2f to %.2f", milliseconds(median(sorted)), milliseconds(percentile(sorted)),
		milliseconds(first), milliseconds(last))
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }
