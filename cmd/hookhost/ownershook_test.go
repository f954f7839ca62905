package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// A hook with user=pbsuser starts as the job's owner, with a daemon and without.
func TestHookOfTheJobsOwnerStarts(t *testing.T) {
	n := newNode(t)
	must.NoError(t, os.Chmod(n.dir, 0o711))
	n.commands("hook create deny", "hook import deny application/x-executable default "+
		filepath.Join(built, "samples/deny"),
		"hook set deny event=execjob_prologue user=pbsuser")
	for _, daemon := range []bool{false, true} {
		if daemon {
			n.serve()
		}
		r := n.hookhost("run", "-u", "nobody", "-l", "ncpus=1", "--", "true")
		if r.status != 0 || strings.Contains(r.stderr, "start hook") {
			t.Errorf("run, with a daemon: %t: status %d, %s", daemon, r.status, r.stderr)
		}
	}
}
