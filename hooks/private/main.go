// Command private is the hook for files that belong to a job alone. It gives each job a TMPDIR: a
// tmpfs, mounted at begin and detached at the end.
//
// A job must not run with a TMPDIR other than its own, so an error at begin or launch rejects it.
package main

import "github.com/hookhost/hookhost/hostapi"

func main() { hostapi.Serve(newHook) }
