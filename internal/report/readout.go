package report

import (
	"math"
	"slices"
	"strings"
	"time"
)

// mostReadouts is how many parts of a picture show their values.
const mostReadouts = 40

// readout is a part of a picture that shows the values at its time when the pointer is on it.
type readout struct{ At, Width, Text string } // At and Width are in percent

// readouts returns the parts of the picture of a chart. There are none for a chart without a
// measured value.
func (c chart) readouts(from, to time.Time) []readout {
	n := 0
	for _, l := range c.lines {
		n = max(n, len(l.times))
	}
	n = min(n, mostReadouts)
	layout := "15:04"
	switch span := to.Sub(from); {
	case span < time.Hour:
		layout = "15:04:05"
	case span >= day*time.Second:
		layout = "01-02 15:04"
	}
	var list []readout
	for i := range n {
		at := from.Add(time.Duration((float64(i) + 0.5) / float64(n) * float64(to.Sub(from))))
		values := []string{at.Format(layout)}
		for _, l := range c.lines {
			if v := l.valueAt(at.Unix()); !math.IsNaN(v) {
				values = append(values, strings.TrimSpace(l.name+" "+c.unit.text(v)))
			}
		}
		if len(values) > 1 {
			list = append(list, readout{
				At: coordinate(100 * float64(i) / float64(n)), Width: coordinate(100 / float64(n)),
				Text: printable(strings.Join(values, ", ")),
			})
		}
	}
	return list
}

// valueAt returns the value of the first point at a time or later, since a point covers the time
// since the one before. It returns NaN outside of the line.
func (l chartLine) valueAt(at int64) float64 {
	i, _ := slices.BinarySearch(l.times, at)
	if i == len(l.times) || at < l.times[0] {
		return math.NaN()
	}
	return l.values[i]
}
