// Package series folds series of a job's usage over time: points are appended, and merged if there
// are too many.
package series

import (
	"math"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
)

// MostPoints is the maximum number of points in a stored series.
const MostPoints = 360

// gauges are the columns in which a merged point gets the greatest value. The others are means
// since the previous point.
var gauges = []string{hostapi.ColumnRSSBytes, hostapi.ColumnCacheBytes, hostapi.ColumnPids,
	hostapi.ColumnDeviceMemBytes}

// IsGauge reports whether a point of the column is the greatest value since the previous point, and
// not the mean.
func IsGauge(column string) bool { return slices.Contains(gauges, column) }

// Append returns old with the points of new that are after its last one, at most MostPoints in all.
// Either may be nil. A repeated answer changes nothing: Append(Append(a, b), b) equals Append(a,
// b). The result shares nothing with old or new.
func Append(old, new *hostapi.Series) *hostapi.Series {
	if old == nil && new == nil {
		return nil
	}
	s := &hostapi.Series{}
	for _, part := range []*hostapi.Series{old, new} {
		if part != nil {
			addAfter(s, part)
		}
	}
	return thin(s, MostPoints)
}

// addAfter adds to s the points of part that are after its last one.
func addAfter(s, part *hostapi.Series) {
	first, had := 0, len(s.Times)
	if had > 0 {
		found := false
		if first, found = slices.BinarySearch(part.Times, s.Times[had-1]); found {
			first++
		}
	}
	s.Times = append(s.Times, part.Times[first:]...)
	if s.Columns == nil && part.Columns != nil {
		s.Columns = make(map[string]hostapi.Column, len(part.Columns))
	}
	for name, column := range part.Columns {
		if _, known := s.Columns[name]; !known {
			s.Columns[name] = unmeasured(had)
		}
		s.Columns[name] = append(s.Columns[name], column[first:]...)
	}
	for name, column := range s.Columns {
		if missing := len(s.Times) - len(column); missing > 0 {
			s.Columns[name] = append(column, unmeasured(missing)...)
		}
	}
}

func unmeasured(n int) hostapi.Column {
	column := make(hostapi.Column, n)
	for i := range column {
		column[i] = math.NaN()
	}
	return column
}

// thin merges points of s if there are more than most. It merges the points in each span of time,
// so that about half of most remain. A merged point has the time of its last one.
func thin(s *hostapi.Series, most int) *hostapi.Series {
	n := len(s.Times)
	if n <= most {
		return s
	}
	width := (s.Times[n-1]-s.Times[0])/int64(most/2) + 1
	merged := &hostapi.Series{Columns: make(map[string]hostapi.Column, len(s.Columns))}
	for first := 0; first < n; {
		end := first + 1
		for end < n && (s.Times[end]-s.Times[0])/width == (s.Times[first]-s.Times[0])/width {
			end++
		}
		merged.Times = append(merged.Times, s.Times[end-1])
		for name, column := range s.Columns {
			value := mean(s.Times, column, first, end)
			if IsGauge(name) {
				value = Greatest(column[first:end])
			}
			merged.Columns[name] = append(merged.Columns[name], value)
		}
		first = end
	}
	return merged
}

// Greatest returns the greatest measured value, or NaN if there is none.
func Greatest(values hostapi.Column) float64 {
	most := math.NaN()
	for _, value := range values {
		if math.IsNaN(most) || value > most {
			most = value
		}
	}
	return most
}

// mean returns the mean of the values from first to end, each weighted by the time since the
// previous point. Values that were not measured do not count.
func mean(times []int64, column hostapi.Column, first, end int) float64 {
	sum, weight := 0.0, 0.0
	for i := first; i < end; i++ {
		if math.IsNaN(column[i]) {
			continue
		}
		seconds := 1.0
		if i > 0 {
			seconds = float64(times[i] - times[i-1])
		}
		sum, weight = sum+seconds*column[i], weight+seconds
	}
	if weight == 0 {
		return math.NaN()
	}
	return sum / weight
}
