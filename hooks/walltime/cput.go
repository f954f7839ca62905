package main

import "time"

// No kernel sends an event when a cgroup has used a given cpu time. But a job cannot use more than
// all its cpus provide. So nothing can happen before the time that its cpus need to use up the rest
// of its cput.

// tolerance is how far a job may exceed its limit of cput unnoticed: a second or a hundredth of the
// limit.
func tolerance(limit time.Duration) time.Duration { return max(time.Second, limit/100) }

// nearestLook keeps checks of a job on many cpus from costing more than the job itself.
const nearestLook = 20 * time.Millisecond

// nextLook returns after how much of the job's time its cput should be checked again. By then the
// job may have reached its limit, but exceeds it by at most half of the tolerance. The other half
// is for the check and the signal.
func nextLook(limit, used time.Duration, cpus int) time.Duration {
	return max(max(limit-used, tolerance(limit)/2)/time.Duration(cpus), nearestLook)
}
