package main_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// A name that a user gives, of a process or a program, does not drive the terminal of an
// administrator who reads of it.
func TestNamesDriveNoTerminal(t *testing.T) {
	const name = "\x1b[2J\x1b]0;x\r\n"
	n := newNode(t)
	n.serve()
	evil := n.path(name)
	if err := os.Link("/bin/sleep", evil); err != nil {
		b, err := os.ReadFile("/bin/sleep")
		must.NoError(t, err)
		must.NoError(t, os.WriteFile(evil, b, 0o755))
	}
	stray := exec.Command(evil, "60")
	must.NoError(t, stray.Start())
	defer stray.Wait()
	defer stray.Process.Kill()
	for _, args := range [][]string{
		{"run", "--", "./no " + name},
		{"run", "-N", name, "--", "sh", "-c", `"$0" 0.1 & wait`, evil},
		{"attach", "-j", name, "-p", "1"},
		{"attach", "-h", "no" + name, "-p", "1"},
		{"report", "7.no" + name},
		{name},
		{"hook", "create", name},
		{"run", "-l", name + "=1", "--", "true"},
	} {
		r := n.hookhost(args...)
		if at := strings.IndexAny(r.stdout+r.stderr, "\x1b\r"); at >= 0 {
			t.Errorf("%q: %q", args, r.stdout+r.stderr)
		}
	}
	log, err := os.ReadFile(n.path("log"))
	if err != nil || strings.ContainsAny(string(log), "\x1b\r") {
		t.Errorf("the daemon's log: %q, %v", log, err)
	}
}
