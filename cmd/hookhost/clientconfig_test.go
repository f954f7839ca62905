package main_test

import (
	"os"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// A mistake in the configuration, as somebody is writing it just now, keeps nobody from the daemon:
// a client needs its socket alone. Hooks are listed from their own files.
func TestClientsNeedNoConfiguration(t *testing.T) {
	n := openNode(t)
	n.ended("1.x", "root", 0, 0, 0, "n1")
	n.serve()
	n.commands("hook create deny")
	must.NoError(t, os.WriteFile(n.path("hookhost.toml"), []byte("[cgroup\nprefx = 1\n"), 0o600))
	for line, says := range map[string]string{
		"jobs": "no jobs", "top --once": "  0 jobs  ", "report 1.x": "1.x", "report": "1.x", "hook list": "Hook deny",
		"hook list deny": "Hook deny", "jobs --json": `"jobs":[]`,
	} {
		if r := n.hookhost(strings.Fields(line)...); r.status != 0 || !strings.Contains(r.stdout, says) {
			t.Errorf("%s: %+v, want %q", line, r, says)
		}
	}
	if r := n.hookhost("run", "--", "true"); r.status != 2 || !strings.Contains(r.stderr, "hookhost.toml") {
		t.Errorf("run: %+v, want the mistake", r)
	}
}
