package jobstate

import "time"

// Timer is when a hook will be called for a job: at a moment, or when the job has run for some
// time. A Timer has either At or Elapsed.
type Timer struct {
	At      Moment        `json:"at,omitzero"`
	Elapsed time.Duration `json:"elapsed,omitzero"` // Record.Elapsed, in nanoseconds
}

// Later reports whether t is of the same kind as u and rings after it.
func (t Timer) Later(u Timer) bool {
	if !t.At.IsZero() || !u.At.IsZero() {
		return !t.At.IsZero() && !u.At.IsZero() && t.At.Sub(u.At) > 0
	}
	return t.Elapsed > u.Elapsed
}

// Same reports whether both ring at the same moment.
func (t Timer) Same(u Timer) bool {
	return t.At.IsZero() == u.At.IsZero() && !t.Later(u) && !u.Later(t)
}

// Due returns when the timer rings. runs is false if the timer stands still because the job has not
// started, is suspended or is over.
func (rec *Record) Due(t Timer, now Moment) (at Moment, runs bool) {
	switch {
	case !t.At.IsZero():
		return t.At, true
	case t.Elapsed <= 0 || rec.Launched.IsZero() || !rec.SuspendedAt.IsZero() || !rec.Ended.IsZero():
		return Moment{}, false
	}
	return now.Add(t.Elapsed - rec.Elapsed(now)), true
}
