// Command container is the hook that runs a job inside the image that the job names.
//
// -l container=PATH or docker://NAME names the image. At execjob_begin the hook checks, as the
// job's owner, that the image can be read (check.go). At execjob_launch it replaces the program by
// one of the site's container engine, which runs the program in the image (engine.go). MoM starts
// the engine as the owner, in the job's cgroup. The owner could call the engine in the job's script
// as well. So an image gives a job no more rights, and no decision here is about rights.
package main

import (
	"os"

	"github.com/hookhost/hookhost/hostapi"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == checkCommand {
		os.Exit(checkAsOwner(os.Args[2:], os.Stderr))
	}
	hostapi.Serve(newHook)
}
