package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// commands runs each of the commands, which have to succeed.
func (n *node) commands(lines ...string) {
	n.t.Helper()
	for _, line := range lines {
		if r := n.hookhost(strings.Fields(line)...); r.status != 0 {
			n.t.Fatalf("%s: status %d, %s", line, r.status, r.stderr)
		}
	}
}

// A hook that was imported starts at once. The list of hooks has the reason why one does not run.
func TestListSaysWhyAHookDoesNotRun(t *testing.T) {
	n := newNode(t)
	n.serve()
	config := n.path("deny.toml")
	must.NoError(t, os.WriteFile(config, []byte("# one per core\nmots = 16\n"), 0o600))
	n.commands("hook create deny", "hook set deny event=execjob_begin", "hook import deny /bin/true")
	lists := func(want string) func() bool {
		return func() bool { return strings.Contains(n.hookhost("hook", "list", "deny").stdout, want) }
	}
	must.Eventually(t, "no hook at all",
		lists("state = broken: start hook deny: it ended before it was ready: exit status 0"))
	n.commands("hook import deny application/x-executable default "+filepath.Join(built, "samples/deny"),
		"hook import deny application/x-config default "+config)
	must.Eventually(t, "a configuration that it refuses",
		lists("state = broken: start hook deny: configuration of hook deny: line 2: mots: unknown key"))
	must.NoError(t, os.WriteFile(config, []byte("most = 16\n"), 0o600))
	n.commands("hook import deny application/x-config default " + config)
	must.Eventually(t, "mended", func() bool { return !lists("state = ")() })
}

// sample returns a hook of testdata/hooks, built.
func sample(t testing.TB, name string) string {
	t.Helper()
	program := filepath.Join(built, "samples", name)
	if exists(program) {
		return program
	}
	cmd := exec.Command("go", "build", "-o", program, "../../testdata/hooks/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return program
}
