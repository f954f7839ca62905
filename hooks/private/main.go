// Command private is the hook for files that belong to a job alone. It gives each job a TMPDIR and
// private directories such as /tmp, and each user with jobs an XDG_RUNTIME_DIR. It removes what
// jobs leave in directories that everybody may write to.
//
// A TMPDIR is a tmpfs, mounted at begin and detached at the end (tmpdir.go). An XDG_RUNTIME_DIR is
// one, too, and lasts until the end of the user's last job (runtimedir.go). Private directories are
// mounted in a mount namespace, into which each launch moves the job's program (namespace.go). A
// user's leftovers are removed after the user's last job on this host (users.go). Until then, and
// while any process of the user is left, they stay (cleaner.go, files.go, sysv.go).
//
// A job must not run with a TMPDIR or /tmp other than its own, so an error at begin or launch
// rejects it.
package main

import "github.com/hookhost/hookhost/hostapi"

func main() { hostapi.Serve(newHook) }
