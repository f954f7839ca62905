package main_test

import (
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
)

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
