// Command devices is the hook that lets a job open the devices it was given, and no other.
//
// Which those are is decided by hook cgroup in its execjob_begin, together with the job's cpus and under the same lock, and
// stands on the job's cgroup (internal/inventory.Grant). This hook makes it hold: a device filter on that cgroup
// (internal/devfilter), the variables that programs go by (env.go), a CDI specification for container runtimes (cdi.go) and
// the files of the DCGM exporter (mapping.go). It also keeps the node's inventory (stock.go), always in the background.
//
// No filter in force means no job: whatever fails at begin rejects it.
package main

import "github.com/hookhost/hookhost/hostapi"

func main() { hostapi.Serve(newHook) }
