package pam

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// The file never has the variables of one login while another one may read it.
func TestEnvFileBelongsToOneLoginAtATime(t *testing.T) {
	f := EnvFile(filepath.Join(t.TempDir(), "pam.env"))
	first, second := os.Getpid(), os.Getppid()
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	has := func(want string) {
		t.Helper()
		if text, err := os.ReadFile(string(f)); err != nil || !strings.Contains(string(text), want+"\n") {
			t.Errorf("%q, %v, want %s", text, err, want)
		}
	}
	must.NoError(t, f.Remove(short(), first))
	must.NoError(t, f.Write(short(), 1, first, map[string]string{"A": "1"}))
	if err := f.Write(short(), 1, second, map[string]string{"A": "2"}); err == nil {
		t.Error("a second login got the file of the first one")
	}
	must.NoError(t, f.Remove(short(), second))
	has("A=1")
	must.NoError(t, f.Write(short(), 1, first, map[string]string{"A": "3"}))
	has("A=3")
	time.AfterFunc(20*time.Millisecond, func() { f.Remove(t.Context(), first) })
	must.NoError(t, f.Write(t.Context(), 1, second, map[string]string{"A": "2"}))
	has("A=2")
	old := time.Now().Add(-2 * longestLogin)
	must.NoError(t, os.Chtimes(string(f), old, old))
	must.NoError(t, f.Write(short(), 1, first, nil))

	gone := exec.Command("true")
	must.NoError(t, gone.Run(), f.Remove(short(), first))
	must.NoError(t, f.Write(short(), 1, gone.Process.Pid, map[string]string{"A": "4"}))
	must.NoError(t, f.Write(short(), 1, first, map[string]string{"A": "5"}))
	has("A=5")
	info, err := os.Stat(string(f))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A user's other logins do not compete for the file, however many there are.
func TestUsersTakeTurnsAtTheEnvFile(t *testing.T) {
	f := EnvFile(filepath.Join(t.TempDir(), "pam.env"))
	brief := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	done, err := f.turn(t.Context(), 1000)
	must.NoError(t, err)
	if _, err := f.turn(brief(), 1000); err == nil {
		t.Error("two logins of a user compete")
	}
	must.NoError(t, f.Write(brief(), 1001, os.Getpid(), nil))
	done()
	done, err = f.turn(brief(), 1000)
	must.NoError(t, err)
	done()
}

// What pam_env would read as something else is not in the file.
func TestEnvFileHasWhatPAMReads(t *testing.T) {
	env := map[string]string{
		"PBS_JOBID": "1.srv", "TMPDIR": "/var/tmp/pbs.1.srv", "EMPTY": "", "LIST": "a, b=c $d \"e",
		"A-B": "x", "": "x", "1": "x", "LINES": "a\nLD_PRELOAD=x", "COMMENT": "a#b", "BLANK": " a", "QUOTED": `"a"`,
		"CONTINUED": `a\`, "CONTROL": "a\x1bb", "LONG": strings.Repeat("x", 1000) + "LD_PRELOAD=x",
	}
	want := "# 7\nEMPTY=\nLIST=a, b=c $d \"e\nPBS_JOBID=1.srv\nTMPDIR=/var/tmp/pbs.1.srv\n"
	if got := string(encode(7, env)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
