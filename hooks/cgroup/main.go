// Command cgroup is the hook that confines a job. A job has one cgroup per host. The hook sets its
// limits, puts the job's processes in it, measures what they used, and ends all of it.
//
// Events: all but execjob_prologue. No other hook moves processes; others ask this one. The
// kernel's files are internal/cgroup's affair, the numbers are decided in limits.go and memory.go,
// and nothing here knows a file name.
//
// The hook's table has what is taken, and is filled from the marks on the cgroups. A change is in
// the mark before it is answered, so that this program may die at any point.
package main

import "github.com/hookhost/hookhost/hostapi"

func main() { hostapi.Serve(newHook) }
