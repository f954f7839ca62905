// Command cgroup is the hook that confines a job: one cgroup per job and host, its limits, the processes in it, what
// they used, and the end of all of it.
//
// Events: all but execjob_prologue. It is the only hook that moves processes; others ask it. The kernel's files are
// internal/cgroup's affair, the numbers are decided in limits.go and memory.go, and nothing here knows a file name.
//
// The truth about what is taken is the cgroup tree itself, read anew at each begin under the tree's lock, so that this
// program may die at any point.
package main

import "github.com/hookhost/hookhost/hostapi"

func main() { hostapi.Serve(newHook) }
