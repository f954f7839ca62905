package main_test

import (
	"os"
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

// A mistake in a hook's configuration is its administrator's to see, at once and with the line,
// and not the next job's.
func TestImportedConfigurationIsChecked(t *testing.T) {
	n := newNode(t)
	n.commands("hook create deny", "hook import deny application/x-executable default "+
		filepath.Join(built, "samples/deny"))
	config := n.path("deny.toml")
	for _, tt := range []struct{ text, says string }{
		{"most = 3\n", ""},
		{"# one per core\nmots = 16\n",
			"hook deny: import application/x-config: its program refuses it: configuration of hook deny: line 2: " +
				"mots: unknown key"},
		{"most = \"many\"\n", "line 1"},
	} {
		must.NoError(t, os.WriteFile(config, []byte(tt.text), 0o600))
		r := n.hookhost("hook", "import", "deny", "application/x-config", "default", config)
		if tt.says == "" && r.status != 0 || tt.says != "" &&
			(r.status != 2 || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, tt.says)) {
			t.Errorf("%q: status %d, %q, want %q", tt.text, r.status, r.stderr, tt.says)
		}
	}
	if r := n.hookhost("hook", "export", "deny", "application/x-config", "default"); r.stdout != "most = 3\n" {
		t.Errorf("afterwards the configuration is %q", r.stdout)
	}
}
