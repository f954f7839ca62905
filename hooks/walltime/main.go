// Command walltime is the hook that warns a job before its walltime is over, and ends it when it
// is: SIGTERM to every process of the job's cgroup, a grace, SIGKILL until nothing is left. The
// hook does the same at the limit of cput.
//
// The clock is the host's: how long a job has run comes with each call (Job.Elapsed), and what is
// due next goes back (Outcome.CallAtElapsed). So suspended time does not count, and a restart of
// anything loses nothing. After a crash in between a signal may be sent again.
//
// The host has the clock, since it sees launch, suspension and end of every job. A clock of this
// hook's would have to survive the hook's death and the host's, and the two could disagree.
//
// The job's stage stands in the hook's state. stage.go decides, from that and from what the kernel
// shows, and touches nothing; job.go looks and acts. The hook reads the job's cgroup
// (internal/cgroup) and /proc/PID (internal/proc), and writes the cgroup's freeze and kill files
// alone.
package main

import "github.com/hookhost/hookhost/hostapi"

func main() { hostapi.Serve(newHook) }
