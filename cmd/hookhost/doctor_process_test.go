package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// without executes a program without a capability: what is not in the bounding set is not root's
// after execve (capabilities(7)).
const without = `
import ctypes, os, sys
if ctypes.CDLL(None).prctl(24, int(sys.argv[1]), 0, 0, 0) != 0: # PR_CAPBSET_DROP
    sys.exit("prctl")
os.execv(sys.argv[2], sys.argv[2:])
`

// The daemon's rights count, not those of the caller of doctor.
func TestDoctorLooksAtTheDaemon(t *testing.T) {
	n := newNode(t)
	before := n.hookhost("doctor")
	if strings.Contains(before.stdout, "CAP_SYSLOG") {
		t.Fatal("this test itself is without CAP_SYSLOG")
	}
	forced, err := os.ReadFile("/proc/sys/kernel/shm_rmid_forced")
	if open := err == nil && string(forced) == "0\n"; open != strings.Contains(before.stdout, "System V IPC") {
		t.Errorf("kernel.shm_rmid_forced is %q; doctor says %s", forced, before.stdout)
	}
	cmd := exec.Command("python3", "-c", without, fmt.Sprint(unix.CAP_SYSLOG), filepath.Join(built, "hookhost"),
		"serve")
	cmd.Env = n.env()
	log, err := os.Create(n.path("log"))
	must.NoError(t, err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	must.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Signal(syscall.SIGTERM); cmd.Wait() })
	must.Eventually(t, "the daemon answers",
		func() bool { return exists(n.path("run/s")) && n.command("jobs").Run() == nil })
	// Words are wrapped.
	text := strings.Join(strings.Fields(n.hookhost("doctor").stdout), " ")
	if want := fmt.Sprintf("CAP_SYSLOG missing in the daemon (pid %d): ", cmd.Process.Pid); !strings.Contains(text,
		want) {
		t.Errorf("doctor does not say %q", want)
	}
	if strings.Contains(text, "all that hookhost uses") {
		t.Error("doctor says that the daemon has all capabilities")
	}
}

// Root's doctor makes the daemon run another one, which makes it run no third.
func TestDoctorOfTheDaemonRequestsNoOther(t *testing.T) {
	n := newNode(t)
	n.serve()
	n.hookhost("doctor")
	pgrep, err := exec.LookPath("pgrep")
	must.NoError(t, err)
	since := time.Now()
	must.Eventually(t, "no doctor runs for 300 ms", func() bool {
		if exec.Command(pgrep, "-P", fmt.Sprint(n.owner()), "-f", " doctor ").Run() == nil {
			since = time.Now()
		}
		return time.Since(since) > 300*time.Millisecond
	})
}
