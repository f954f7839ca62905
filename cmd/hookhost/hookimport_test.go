package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
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
