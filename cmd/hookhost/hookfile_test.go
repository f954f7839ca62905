package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// A damaged file of hooks.d does not stop the node's daemon. No job begins past a hook that may
// have something against it.
func TestDamagedHookFile(t *testing.T) {
	n := newNode(t)
	n.commands("hook create deny", "hook set deny event=execjob_begin",
		"hook import deny application/x-executable default "+filepath.Join(built, "samples/deny"))
	file := n.path("hooks.d/deny.toml")
	sound, err := os.ReadFile(file)
	must.NoError(t, err)
	must.NoError(t, os.WriteFile(file, append([]byte("colour = 7\n"), sound...), 0o644))
	const says = `line 1: unknown key "colour"`
	if r := n.hookhost("hook", "list"); r.status != 1 || !strings.Contains(r.stdout, "fault = "+says) ||
		!strings.Contains(r.stdout, "Hook cgroup") || !strings.Contains(r.stderr, "hook deny: "+says) {
		t.Errorf("list: status %d", r.status)
	}
	if r := n.hookhost("hook", "set", "deny", "order=7"); r.status != 2 || !strings.Contains(r.stderr, says) {
		t.Errorf("set: status %d, %s", r.status, r.stderr)
	}
	for _, daemon := range []bool{false, true} {
		if daemon {
			n.serve()
		}
		r := n.hookhost("run", "-l", "ncpus=1", "--", "true")
		if r.status != 125 || !strings.Contains(r.stderr,
			"execjob_begin hook 'deny' encountered an exception, request rejected: hook deny: its file cannot be "+
				"used: "+says) {
			t.Errorf("run, with a daemon: %t: status %d, %s", daemon, r.status, r.stderr)
		}
		if r := n.hookhost("doctor"); r.status != 1 ||
			!strings.Contains(strings.Join(strings.Fields(r.stdout), " "), "hook deny its file cannot be used: "+says) {
			t.Errorf("doctor, with a daemon: %t: status %d", daemon, r.status)
		}
	}
	must.NoError(t, os.WriteFile(file, sound, 0o644))
	n.commands("hook set deny order=7", "run --report=none -l ncpus=1 -- true") // set has the daemon look again
	if r := n.hookhost("run", "-l", "ncpus=2000", "--", "true"); r.status != 125 ||
		!strings.Contains(r.stderr, "rejected by 'deny'") {
		t.Errorf("a job that it is against: status %d, %s", r.status, r.stderr)
	}
}
