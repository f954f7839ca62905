package main_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
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

// A program that is no hook's is refused, and a daemon that it has started is ended.
func TestImportLeavesNothingOfAWrongProgram(t *testing.T) {
	n := newNode(t)
	n.commands("hook create daemon")
	pid := n.path("pid")
	program := n.path("daemon")
	must.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\nsetsid sh -c 'echo $$ >"+pid+".new; mv "+pid+".new "+pid+
		"; exec sleep 1000' >/dev/null 2>&1 &\nwhile ! [ -e "+pid+" ]; do sleep 0.1; done\n"), 0o755))
	// A child of the shell that becomes the command is nothing of the program's.
	other := n.path("other")
	cmd := n.command("hook", "import", "daemon", "application/x-executable", "default", program)
	cmd.Args = append([]string{"sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $! >" + other + `; exec "$@"`, "sh"},
		append([]string{cmd.Path}, cmd.Args[1:]...)...)
	cmd.Path = "/bin/sh"
	r := n.finish(cmd)
	text, err := os.ReadFile(other)
	must.NoError(t, err)
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must.NoError(t, err)
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Errorf("another child of the command was ended: %v", err)
	}
	if r.status != 2 || !strings.HasPrefix(r.stderr, "hookhost: hook daemon: import application/x-executable: "+
		"it does not start as a hook: it ended before it was ready: exit status 0") {
		t.Errorf("status %d, %q", r.status, r.stderr)
	}
	daemon, err := os.ReadFile(pid)
	must.NoError(t, err)
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(daemon))); err == nil {
		t.Error("the daemon runs on")
	}
	if listed := n.hookhost("hook", "list", "daemon"); strings.Contains(listed.stdout, "program =") {
		t.Errorf("the program is registered: %s", listed.stdout)
	}
}
