package main

import "time"

// The kernel does not send an event when a cgroup has used a given cpu time. But a job cannot use
// more than all its cpus provide. So no check is needed until its cpus could have used up the rest
// of its cput.

// tolerance is how far a job may exceed its limit of cput unnoticed. That is a second or a
// hundredth of the limit, whichever is longer.
func tolerance(limit time.Duration) time.Duration { return max(time.Second, limit/100) }

// nearestLook is the shortest pause between checks. Without it, checks of a job on many cpus could
// cost more than the job itself.
const nearestLook = 20 * time.Millisecond

// nextLook returns how much longer the job runs before its cput should be checked again. By then
// the job may have reached its limit, but it exceeds the limit by at most half of the tolerance.
// The other half is for the check and the signal.
func nextLook(limit, used time.Duration, cpus int) time.Duration {
	return max(max(limit-used, tolerance(limit)/2)/time.Duration(cpus), nearestLook)
}
