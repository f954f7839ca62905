package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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

// A hook that was imported starts at once. If it does not run, the import and the list of hooks say
// why.
func TestImportSaysWhyAHookDoesNotRun(t *testing.T) {
	n := newNode(t)
	n.serve()
	config := n.path("deny.toml")
	must.NoError(t, os.WriteFile(config, []byte("# one per core\nmots = 16\n"), 0o600))
	n.commands("hook create deny", "hook set deny event=execjob_begin")
	imports := func(want, kind, file string) {
		t.Helper()
		r := n.hookhost("hook", "import", "deny", kind, "default", file)
		if want != "" {
			want = "hookhost: hook import: hook deny is broken: start hook deny: " + want + "\n"
		}
		if r.status != 0 || r.stderr != want {
			t.Errorf("import %s: status %d, %q; want %q", file, r.status, r.stderr, want)
		}
	}
	const program, configuration = "application/x-executable", "application/x-config"
	const refused = "configuration of hook deny: line 2: mots: unknown key"
	imports("it ended before it was ready: exit status 0", program, "/bin/true")
	imports("", program, filepath.Join(built, "samples/deny"))
	imports(refused, configuration, config)
	list := n.hookhost("hook", "list", "deny").stdout
	if !strings.Contains(list, "state = broken: start hook deny: "+refused) {
		t.Errorf("the list says %q", list)
	}
	must.NoError(t, os.WriteFile(config, []byte("most = 16\n"), 0o600))
	imports("", configuration, config)
}

var building sync.Mutex

// sample returns a hook of testdata/hooks, built.
func sample(t testing.TB, name string) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
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
