// Command cgroup is the hook that confines a job. Each job has one cgroup per host. The hook sets
// the cgroup's limits, moves the job's processes into it, measures what they use, and removes
// everything at the end.
//
// It handles all events except execjob_prologue. No other hook moves processes: they ask this one.
// internal/cgroup deals with the kernel's files, and the files of resources decide the numbers.
// Nothing here knows a file name.
//
// The hook's table of what jobs hold is filled from the marks on the cgroups. A change is written
// to the mark before the event is answered, so that this program may die at any point.
package main

import "github.com/hookhost/hookhost/hostapi"

func main() { hostapi.Serve(newHook) }
