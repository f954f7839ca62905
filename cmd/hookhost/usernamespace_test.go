package main_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// In a user namespace of the own a user is root to the user's programs, but not to this host.
func TestCommandsWorkForRootOfAUserNamespace(t *testing.T) {
	n := newNode(t)
	n.open()
	n.finished("1.x", ownerUID)
	n.serve()
	n.event("execjob_begin", "2.x", "")
	for args, want := range map[string]string{
		"jobs": "2.x", "report 1.x": "1.x", "top --once": "2.x", "report": "1.x",
	} {
		command := append([]string{"-Ur", filepath.Join(built, "hookhost")}, strings.Fields(args)...)
		cmd := exec.Command("unshare", command...)
		cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin", "HOOKHOST_SOCKET=" + n.path("run/s")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ownerUID, Gid: ownerUID}}
		if r := n.finish(cmd); r.status != 0 || !strings.Contains(r.stdout, want) {
			t.Errorf("%s: %+v", args, r)
		}
	}
	n.event("execjob_end", "2.x", "")
}
