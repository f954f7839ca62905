package series

import (
	"math"

	"github.com/hookhost/hookhost/hostapi"
)

// Spread divides the time between from and to into n equal parts, and returns a value of the column
// for each. A point covers the time since the previous point. The value is the greatest one for a
// gauge, otherwise the mean. It is NaN if nothing was measured.
func Spread(s *hostapi.Series, column string, from, to int64, n int) []float64 {
	values := unmeasured(n)
	if s == nil || to <= from || len(s.Columns[column]) != len(s.Times) {
		return values
	}
	weights := make([]float64, n)
	gauge := IsGauge(column)
	width := float64(to-from) / float64(n)
	for i, value := range s.Columns[column] {
		if math.IsNaN(value) {
			continue
		}
		begin, end := float64(since(s.Times, i)-from)/width, float64(s.Times[i]-from)/width
		for k := max(int(begin), 0); k < n && float64(k) < end; k++ {
			overlap := min(end, float64(k+1)) - max(begin, float64(k))
			switch {
			case gauge && (math.IsNaN(values[k]) || value > values[k]):
				values[k] = value
			case !gauge && weights[k] == 0:
				values[k], weights[k] = value, overlap
			case !gauge:
				values[k] += (value - values[k]) * overlap / (weights[k] + overlap)
				weights[k] += overlap
			}
		}
	}
	return values
}

// since returns the time from which a point counts. The first point covers as long a time as the
// next one.
func since(times []int64, i int) int64 {
	switch {
	case i > 0:
		return times[i-1]
	case len(times) > 1:
		return times[0] - (times[1] - times[0])
	}
	return times[0] - 1
}
