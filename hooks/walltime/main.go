// Command walltime is the hook that warns a job before its walltime runs out, and then ends it. It
// sends SIGTERM to every process in the job's cgroup, waits for a grace period, and sends SIGKILL
// until no process is left. It does the same at the limit of cput.
//
// The host keeps the time. Each call says how long a job has run (Job.Elapsed), and the answer says
// when the next action is due (Outcome.CallAtElapsed). So suspended time does not count, and
// restarts lose nothing. After a crash a signal may be sent again.
//
// The host keeps the time because it sees the launch, suspension and end of every job. A clock in
// this hook would have to survive crashes of the hook and of the host, and the two clocks could
// disagree.
//
// The job's stage is in the hook's state. stage.go decides without side effects, based on the state
// and on what the kernel shows. job.go measures and acts. The hook reads the job's cgroup
// (internal/cgroup) and /proc/PID (internal/proc). It signals and freezes the job's processes, and
// raises the job's cpu time at its end.
package main

import "github.com/hookhost/hookhost/hostapi"

func main() { hostapi.Serve(newHook) }
