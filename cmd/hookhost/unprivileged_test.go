package main_test

import (
	"os"
	"strings"
	"testing"
)

// Jobs and hooks are root's to start and to register, whatever files the caller names.
func TestOthersThanRootStartNoJobsAndRegisterNoHooks(t *testing.T) {
	n := newNode(t)
	for _, dir := range []string{built, n.dir} {
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	// Folders that the caller may write to.
	if err := os.Mkdir(n.path("theirs"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(n.path("theirs"), 0o777); err != nil {
		t.Fatal(err)
	}
	own := "--state=" + n.path("theirs/state")
	for line, want := range map[string]string{
		"run " + own + " --report=none -- true":         "run it as root",
		"run " + own + " --report=none -u root -- true": "run it as root",
		"serve " + own:                           "root",
		"hook " + own + " create mine":           "run it as root",
		"hook " + own + " set mpi enabled=false": "run it as root",
		"event " + own + " execjob_end":          "",
	} {
		r := n.as(ownerUID, strings.Fields(line)...)
		if r.status == 0 || !strings.Contains(r.stderr, want) || r.stdout != "" {
			t.Errorf("%s: status %d, %q%q, want %q", line, r.status, r.stdout, r.stderr, want)
		}
	}
	if left, err := os.ReadDir(n.path("theirs")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
