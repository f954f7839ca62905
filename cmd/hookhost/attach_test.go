package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a program that calls pbs_attach may go by: its messages, without a name before those of usage, and its statuses.
func TestAttachByPBSName(t *testing.T) {
	n := newNode(t)
	n.open()
	link := n.path("pbs_attach")
	if err := os.Symlink(filepath.Join(built, "hookhost"), link); err != nil {
		t.Fatal(err)
	}
	pbsAttach := func(t *testing.T, args ...string) result {
		t.Helper()
		n.t = t
		cmd := n.command()
		cmd.Path, cmd.Args = link, append([]string{link}, args...)
		return n.finish(cmd)
	}
	usage := func(lines ...string) string { return strings.Join(lines, "\n") + "\nusage: pbs_attach " }
	for _, tt := range []struct {
		args   []string
		status int
		stderr string
	}{
		{nil, 2, usage("must specify pid or command")},
		{[]string{"-p", "x1"}, 2, usage("bad pid: x1")},
		{[]string{"-p", "0", "-m", "x"}, 2, usage("bad pid: 0", "bad port: x")},
		{[]string{"-p", "99", "-s", "-P", "true"}, 2, usage("cannot specify pid and session", "cannot specify pid and parent", "cannot specify pid and command")},
		{[]string{"-z"}, 2, "unknown shorthand flag: 'z' in -z\nusage: pbs_attach "},
		{[]string{"-h", "elsewhere.x", "-p", "99"}, 1, "pbs_attach: tm_attach: TM_ESYSTEM: connect to "},
		{[]string{"-h", "elsewhere.x", "true"}, 1, "pbs_attach: tm_attach: TM_ESYSTEM: host elsewhere.x: "},
		{[]string{"-h", "localhost", "-m", "15003", "-c", "-j", "1.x", "-p", fmt.Sprint(os.Getpid())}, 1, "pbs_attach: tm_attach: TM_ESYSTEM: connect to "},
	} {
		r := pbsAttach(t, tt.args...)
		if r.status != tt.status || !strings.HasPrefix(r.stderr, tt.stderr) || r.stdout != "" {
			t.Errorf("%q: status %d, %q, want %d, %q", tt.args, r.status, r.stderr, tt.status, tt.stderr)
		}
	}
	if r := pbsAttach(t, "--version"); r.status != 0 || !strings.HasPrefix(r.stdout, "pbs_version = ") {
		t.Errorf("--version: %+v", r)
	}
	if r := n.hookhost("attach", "--help"); r.status != 0 || !strings.Contains(r.stdout, "--host") {
		t.Errorf("--help: %+v", r)
	}
}
