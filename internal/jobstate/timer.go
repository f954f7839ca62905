package jobstate

import "time"

// Timer is when a hook will be called for a job: at a moment, or when the job has run for some
// time. A Timer has either At or Elapsed.
type Timer struct {
	At      Moment        `json:"at,omitzero"`
	Elapsed time.Duration `json:"elapsed,omitzero"` // Record.Elapsed, in nanoseconds
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

// Elapsed returns how long the job has run at that moment, without its suspensions. The time counts
// from the launch of the first program to the end of the job.
func (rec *Record) Elapsed(now Moment) time.Duration {
	if rec.Launched.IsZero() {
		return 0
	}
	if !rec.Ended.IsZero() {
		now = rec.Ended
	}
	if !rec.SuspendedAt.IsZero() {
		now = rec.SuspendedAt
	}
	return max(now.Sub(rec.Launched)-rec.Suspended, 0)
}
