package main_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
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
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(evil, b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	stray := exec.Command(evil, "60")
	if err := stray.Start(); err != nil {
		t.Fatal(err)
	}
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
