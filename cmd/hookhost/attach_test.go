package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// A program that calls pbs_attach may go by its messages, without a name before those of usage, and
// by its statuses. A site's link of that name may point to either program.
func TestAttachByPBSName(t *testing.T) {
	for _, program := range []string{"hookhost", "pbs-attach"} {
		t.Run(program, func(t *testing.T) { attachByPBSName(t, program) })
	}
}

func attachByPBSName(t *testing.T, program string) {
	n := newNode(t)
	n.open()
	link := n.path("pbs_attach")
	must.NoError(t, os.Symlink(filepath.Join(built, program), link))
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
		{[]string{"-j", "x", "true"}, 2, usage(`job id "x": not of the form 12, 12.server or 12[3].server`)},
		{[]string{"-p", "0", "-m", "x"}, 2, usage("bad pid: 0", "bad port: x")},
		{[]string{"-p", "99", "-s", "-P", "true"}, 2,
			usage("cannot specify pid and session", "cannot specify pid and parent", "cannot specify pid and command")},
		{[]string{"-z"}, 2, "unknown shorthand flag: 'z' in -z\nusage: pbs_attach "},
		{[]string{"-h", "elsewhere.x", "true"}, 1, "pbs_attach: tm_attach: TM_ESYSTEM: host elsewhere.x: "},
		{[]string{"-h", "localhost", "-m", "15003", "-c", "-j", "1.x", "-p", fmt.Sprint(os.Getpid())}, 1,
			"pbs_attach: tm_attach: TM_ESYSTEM: connect to "},
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

// With a real daemon a plain attach needs nothing but pbs-attach, whoever the user is. A refusal
// is logged and counted once.
func TestPBSAttachNeedsNoOtherProgram(t *testing.T) {
	n := newNode(t)
	n.serve()
	const job = "7.node"
	n.beginFor(t, job)
	alone := filepath.Join(t.TempDir(), "pbs-attach")
	must.NoError(t, duplicate(filepath.Join(built, "pbs-attach"), alone))
	for dir := filepath.Dir(alone); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		must.NoError(t, os.Chmod(dir, 0o755))
	}
	attach := func(uid uint32, args ...string) result {
		cmd := exec.Command(alone, args...)
		cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin", "HOOKHOST_SOCKET=" + n.path("run/s")}
		cmd.SysProcAttr = sessionOf(uid)
		return n.finish(cmd)
	}
	for _, args := range [][]string{{"-j", job}, nil} {
		r := attach(ownerUID, append(args, "--", "cat", "/proc/self/cgroup")...)
		if r.status != 0 || filepath.Base(cgroupOf(r.stdout, "memory")) != job &&
			filepath.Base(cgroupOf(r.stdout, "")) != job {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if r := attach(ownerUID+1, "-j", job, "--", "true"); r.status != 1 || r.stderr == "" {
		t.Errorf("another user: %+v", r)
	}
	log, err := os.ReadFile(n.path("log"))
	if said := strings.Count(string(log), "level=warning"); err != nil || said != 1 {
		t.Errorf("%d lines on refusals: %v %s", said, err, log)
	}
}
