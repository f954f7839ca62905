package delivery

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// program is an executable script of root's.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(commonDir(t, 0o755), "program")
	must.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755), os.Chmod(path, 0o755))
	return path
}

func TestCommandIsNobodysAndGetsTheReport(t *testing.T) {
	out := filepath.Join(commonDir(t, 0o777), "out")
	must.NoError(t, runCommand(t.Context(), program(t, "(id -u; id -g; id -G; pwd; env | sort; cat) >"+out),
		reportOf("1.s", 0)))
	text, err := os.ReadFile(out)
	must.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	must.Equal(t, "", []string{"65534", "65534", "65534", "/"}, lines[:4])
	last := lines[len(lines)-1]
	if !strings.HasPrefix(last, `{"job":"1.s",`) {
		t.Errorf("%s", text)
	}
	for _, line := range lines[4 : len(lines)-1] {
		name, _, _ := strings.Cut(line, "=")
		if !strings.Contains(" PATH HOME LANG PWD OLDPWD SHLVL _ ", " "+name+" ") {
			t.Errorf("variable %s", line)
		}
	}
}

func TestCommandNeedNotReadItsInputAndMayLeaveAProcess(t *testing.T) {
	big := reportOf("1.s", 0)
	big.Notes = []string{strings.Repeat("x", 1<<20)}
	must.NoError(t, runCommand(t.Context(), program(t, "exit 0"), big))
	must.NoError(t, runCommand(t.Context(), program(t, "sleep 3 & exit 0"), big))
}

func TestCommandThatFailsSaysWhy(t *testing.T) {
	writable := program(t, "exit 0")
	must.NoError(t, os.Chmod(writable, 0o777))
	for path, want := range map[string]string{
		program(t, "echo no mail >&2; echo today >&2; exit 3"): "exit status 3: no mail today",
		program(t, "kill -9 $$"):                               "signal: killed",
		writable:                                               "mode 0777 lets others write to it",
		"/nonexistent/mail":                                    "no such file",
	} {
		err := runCommand(t.Context(), path, reportOf("1.s", 0))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	err := runCommand(t.Context(), program(t, "head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1"), reportOf("1.s", 0))
	if err == nil || len(err.Error()) > 2*maxOutput {
		t.Errorf("%v", err)
	}
}

// One command runs at a time, and none for longer than its limit.
func TestCommandThatHangsIsKilledWithItsProcesses(t *testing.T) {
	mark := fmt.Sprintf("100.%d", os.Getpid())
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, fmt.Errorf("not over after 200ms"))
	defer cancel()
	began := time.Now()
	err := runCommand(ctx, program(t, "sleep "+mark+" & sleep "+mark), reportOf("1.s", 0))
	if err == nil || !strings.Contains(err.Error(), "not over after 200ms") || time.Since(began) > 20*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	must.Eventually(t, "nothing is left", func() bool {
		return exec.Command("pgrep", "-f", "^sleep "+mark).Run() != nil
	})
}
