package jobstate

import "time"

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
