// Command devices is the hook that lets a job open only the devices that it was given.
//
// Hook cgroup chooses them in its execjob_begin, together with the job's cpus and under the same
// lock. It stores the grant on the job's cgroup (internal/inventory.Grant). This hook enforces the
// grant with a device filter on that cgroup (internal/devfilter). Programs find their devices in
// the environment (env.go), container runtimes in a CDI specification (cdi.go), and the DCGM
// exporter in files (mapping.go). The node's inventory is made in the background (keeper.go).
//
// A job must not start without a filter, so any error at begin rejects it.
package main

import "github.com/hookhost/hookhost/hostapi"

func main() { hostapi.Serve(newHook) }
