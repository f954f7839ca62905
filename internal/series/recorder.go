package series

import (
	"math"
	"slices"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// Recorder collects the points of a hook's series until they have been in two answers. An answer
// may get lost, for example if the job ends meanwhile, and the host ignores repeated points. Memory
// of old points is reused. A Recorder is for one goroutine at a time.
type Recorder struct {
	names  []string
	times  []int64
	values []hostapi.Column // by names
	handed int              // points that were already in an answer
}

// NewRecorder returns a recorder of points with these columns.
func NewRecorder(names ...string) *Recorder {
	return &Recorder{names: names, values: make([]hostapi.Column, len(names))}
}

// Last returns the time of the newest point, or 0 if there is none.
func (r *Recorder) Last() int64 {
	if len(r.times) == 0 {
		return 0
	}
	return r.times[len(r.times)-1]
}

// Add adds a point, with a value for each column; NaN means unknown. The point's time must be after
// Last.
func (r *Recorder) Add(at int64, values ...float64) {
	r.times = append(r.times, at)
	for i, value := range values {
		r.values[i] = append(r.values[i], value)
	}
	if len(r.times) > MostPoints { // there was no answer for a long time
		r.thin()
	}
}

// thin merges points. A point that was merged with later ones is answered again.
func (r *Recorder) thin() {
	before := int64(math.MinInt64)
	if r.handed > 0 {
		before = r.times[r.handed-1]
	}
	s := thin(r.series(), MostPoints)
	r.times = s.Times
	for i, name := range r.names {
		r.values[i] = s.Columns[name]
	}
	r.handed, _ = slices.BinarySearch(r.times, before+1)
}

// series returns the points without copying them.
func (r *Recorder) series() *hostapi.Series {
	s := &hostapi.Series{Times: r.times, Columns: make(map[string]hostapi.Column, len(r.names))}
	for i, name := range r.names {
		s.Columns[name] = r.values[i]
	}
	return s
}

// Answer returns the points for an answer, or nil if there are none. Columns without values are
// left out.
func (r *Recorder) Answer() *hostapi.Series {
	if len(r.times) == 0 {
		return nil
	}
	s := &hostapi.Series{Times: slices.Clone(r.times), Columns: map[string]hostapi.Column{}}
	for i, name := range r.names {
		if slices.ContainsFunc(r.values[i], func(v float64) bool { return !math.IsNaN(v) }) {
			s.Columns[name] = slices.Clone(r.values[i])
		}
	}
	r.times = slices.Delete(r.times, 0, r.handed)
	for i := range r.values {
		r.values[i] = slices.Delete(r.values[i], 0, r.handed)
	}
	r.handed = len(r.times)
	return s
}

// Pause returns the time from now to the next point of a series that began age ago, and how much
// later it may be. At first, points are interval apart. The distance doubles whenever there would
// be more than MostPoints.
//
// All points are at multiples of their distance on the clock. So one wake-up serves all jobs of a
// node, and all hosts of a job have points at the same times.
func Pause(interval, age time.Duration, now time.Time) (pause, slack time.Duration) {
	for age/MostPoints >= interval {
		interval *= 2
	}
	return now.Truncate(interval).Add(interval).Sub(now), interval / 10
}
