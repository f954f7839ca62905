// Command private is the hook for files that belong to a job alone. There are four kinds of them,
// since none serves all programs:
//
//   - TMPDIR is a tmpfs for each job, mounted where every process of the job sees it (tmpfs.go).
//     Attached processes run as the user, who may not enter a mount namespace.
//   - Private directories such as /tmp are for programs that do not ask for TMPDIR. They are
//     mounted in a mount namespace, into which each launch moves the job's program (namespace.go).
//     Their files are in a tmpfs or on disk (disk.go).
//   - XDG_RUNTIME_DIR is a tmpfs for each user with jobs, until the end of the last one
//     (runtimedir.go). Container runtimes have state there that is the user's, not a job's.
//   - Leftovers are what jobs wrote to directories that everybody may write to, and IPC objects.
//     They are removed after the user's last job on this host (users.go). Until then, and while any
//     process of the user is left, they stay (cleaner.go, files.go, sysv.go).
//
// A job must not run with a TMPDIR or /tmp other than its own, so an error at begin or launch
// rejects it.
package main

import "github.com/hookhost/hookhost/hostapi"

func main() { hostapi.Serve(newHook) }
