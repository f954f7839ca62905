package main

import "time"

// No kernel announces that a cgroup has used so much cpu time. But a job cannot use more than its
// cpus give. The rest of its cput, over the number of its cpus, is a time in which nothing can
// happen.

// tolerance is how far past its limit of cput a job may get before that is seen: a second, or a
// hundredth of the limit.
func tolerance(limit time.Duration) time.Duration { return max(time.Second, limit/100) }

// nearestLook keeps a job on many cpus from costing more than it uses.
const nearestLook = 20 * time.Millisecond

// nextLook returns after what time of the job its cput is to be looked at again. The job may have
// reached its limit by then, but is past it by half of the tolerance at most. The other half is for
// the look and the signal to come.
func nextLook(limit, used time.Duration, cpus int) time.Duration {
	return max(max(limit-used, tolerance(limit)/2)/time.Duration(cpus), nearestLook)
}
