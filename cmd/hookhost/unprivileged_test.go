package main_test

import (
	"os"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// Jobs and hooks are root's to start and to register, whatever files the caller names.
func TestOthersThanRootStartNoJobsAndRegisterNoHooks(t *testing.T) {
	n := newNode(t)
	n.open()
	// Folders that the caller may write to.
	must.NoError(t, os.Mkdir(n.path("theirs"), 0o777))
	must.NoError(t, os.Chmod(n.path("theirs"), 0o777))
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
