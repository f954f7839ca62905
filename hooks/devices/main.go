// Command devices is the hook that lets a job open the devices it was given, and no other.
//
// Hook cgroup decides which those are in its execjob_begin, together with the job's cpus and under
// the same lock. The grant stands on the job's cgroup (internal/inventory.Grant). This hook makes
// the grant hold by a device filter on that cgroup (internal/devfilter). Programs find it in their
// environment (env.go), container runtimes in a CDI specification (cdi.go), the DCGM exporter in
// files (mapping.go). The node's inventory is made in the background (keeper.go).
//
// No filter in force means no job: any error at begin rejects it.
package main

import "github.com/hookhost/hookhost/hostapi"

func main() { hostapi.Serve(newHook) }
