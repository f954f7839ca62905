package series

import (
	"math"
	"slices"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// Recorder collects the points of a hook's series until they have been in two answers. An answer
// may come to nothing, as when the job ends meanwhile, and the host counts a repeated point once. A
// point leaves no garbage once there have been as many. A Recorder is for one goroutine at a time.
type Recorder struct {
	names  []string
	times  []int64
	values []hostapi.Column // by names
	handed int              // points that were in an answer already
}

// NewRecorder returns a recorder of points with these columns.
func NewRecorder(names ...string) *Recorder {
	return &Recorder{names: names, values: make([]hostapi.Column, len(names))}
}

// Last returns the time of the newest point, 0 before there is one.
func (r *Recorder) Last() int64 {
	if len(r.times) == 0 {
		return 0
	}
	return r.times[len(r.times)-1]
}

// Add adds a point, with a value for each column; NaN is not known. The point's time has to be
// after Last.
func (r *Recorder) Add(at int64, values ...float64) {
	r.times = append(r.times, at)
	for i, value := range values {
		r.values[i] = append(r.values[i], value)
	}
	if len(r.times) > MostPoints { // nobody has asked for a long time
		r.thin()
	}
}

// thin merges points. A point that was merged with later ones is handed out again.
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

// series returns what there is, and shares it.
func (r *Recorder) series() *hostapi.Series {
	s := &hostapi.Series{Times: r.times, Columns: make(map[string]hostapi.Column, len(r.names))}
	for i, name := range r.names {
		s.Columns[name] = r.values[i]
	}
	return s
}

// Answer returns the points for an answer, nil if there are none. A column without a value is left
// out.
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
// later it may be. Points are interval apart at first. The distance doubles where they would become
// more than MostPoints.
//
// All points are at multiples of their distance by the clock. So one wake-up serves all jobs of a
// node, and the hosts of a job have points of the same moments.
func Pause(interval, age time.Duration, now time.Time) (pause, slack time.Duration) {
	for age/MostPoints >= interval {
		interval *= 2
	}
	return now.Truncate(interval).Add(interval).Sub(now), interval / 10
}
