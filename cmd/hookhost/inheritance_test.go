package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
)

// masked is the command under an umask.
func masked(umask string, cmd *exec.Cmd) *exec.Cmd {
	cmd.Args = append([]string{"sh", "-c", `umask ` + umask + `; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	return cmd
}

// A job's user reads what was made for the job, and reaches the daemon, whatever umask root had.
// The job has that umask, as from a shell.
func TestUmaskOfRootIsTheJobsAndNoMore(t *testing.T) {
	n := newNode(t)
	n.open()
	const job = `umask; wc -l <"$PBS_NODEFILE"`
	for _, umask := range []string{"0077", "0000"} {
		cmd := n.command("run", "-u", "nobody", "-l", "ncpus=1", "--report=none", "--", "sh", "-c", job)
		if r := n.finish(masked(umask, cmd)); r.status != 0 || r.stdout != umask+"\n1\n" {
			t.Errorf("status %d, umask and lines of PBS_NODEFILE %q", r.status, r.stdout)
		}
	}
	asked := exec.Command(filepath.Join(built, "hookhost"), "jobs")
	asked.Env, asked.Dir = []string{"HOOKHOST_SOCKET=" + n.path("run/s"), "HOOKHOST_CONFIG=/nonexistent"}, "/"
	asked.SysProcAttr = userOf(ownerUID)
	if r := n.finish(asked); r.status != 0 {
		t.Errorf("a user does not reach the daemon: %s", r.stderr)
	}
}

// A program that runs as another user gets nothing of root's that this user could not have opened
// or read.
func TestRunAsAnotherUserPassesOnNothingOfRoots(t *testing.T) {
	n := newNode(t)
	n.open()
	secret, err := os.Open("/etc/shadow")
	must.NoError(t, err)
	defer secret.Close()
	const look = "ls /proc/self/fd | wc -l; cat <&3 | wc -c; env"
	cmd := n.command("run", "-u", "nobody", "--report=none", "--", "sh", "-c", look)
	cmd.ExtraFiles = []*os.File{secret}
	cmd.Env = append(cmd.Env, "ROOTS_TOKEN=secret", "HOME=/root", "SUDO_USER=root", "LC_ALL=C")
	r := n.finish(cmd)
	if !strings.HasPrefix(r.stdout, "4\n0\n") { // 0, 1, 2 and ls's own
		t.Errorf("descriptors, bytes of /etc/shadow: %.8q, want 4 and 0", r.stdout)
	}
	for _, roots := range []string{"ROOTS_TOKEN", "SUDO_USER", "HOME=/root\n", "PBS_O_HOME=/root\n"} {
		if strings.Contains(r.stdout, roots) {
			t.Errorf("the program has root's %s", roots)
		}
	}
	for _, own := range []string{"USER=nobody\n", "LOGNAME=nobody\n", "LC_ALL=C\n", "PBS_JOBID="} {
		if !strings.Contains(r.stdout, own) {
			t.Errorf("the program does not have %s", own)
		}
	}
}

// A process has the rights to all keys of its session keyring, whatever its uid. So a program of
// another user has none of root's.
func TestRunAsAnotherUserPassesOnNoKeyOfRoots(t *testing.T) {
	n := newNode(t)
	n.open()
	runtime.LockOSThread() // never unlocked: the thread ends with its keyring
	must.NoError(t, proc.LeaveSessionKeyring())
	const name = "hookhost-test-key"
	if _, err := unix.AddKey("user", name, []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING); err != nil {
		t.Skipf("no keys here: %v", err)
	}
	for user, sees := range map[string]bool{"root": true, "nobody": false} {
		r := n.hookhost("run", "-u", user, "--report=none", "--", "cat", "/proc/keys")
		if r.status != 0 || strings.Contains(r.stdout, name) != sees {
			t.Errorf("a program of %s sees root's key: %t, want %t", user, !sees, sees)
		}
	}
}
