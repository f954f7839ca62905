package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

var someRlimits = map[string]Rlimit{
	"nofile": {Soft: 100, Hard: 200}, "core": {Soft: 0, Hard: 0}, "as": {Soft: 1 << 40, Hard: 1 << 40},
	"fsize": {Soft: 1 << 20, Hard: 1 << 30},
}

// wantRlimits checks a /proc/PID/limits for someRlimits.
func wantRlimits(t *testing.T, text string) {
	t.Helper()
	for _, want := range []string{
		`Max open files +100 +200 `, `Max core file size +0 +0 `, `Max address space +1099511627776 +1099511627776 `,
		`Max file size +1048576 +1073741824 `,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
}

// The limits of a process that runs are set by its identity.
func TestSetRlimits(t *testing.T) {
	always := func(string) bool { return true }
	r, w, err := os.Pipe()
	must.NoError(t, err)
	child, err := Start(&exec.Cmd{Path: "/bin/cat", Args: []string{"cat"}, Stdin: r})
	r.Close()
	must.NoError(t, err)
	procfs := procFS(t)
	p, err := Read(procfs, child.PID)
	must.NoError(t, err)
	if err := SetRlimits(procfs, p.ID(), someRlimits, always); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", child.PID))
	must.NoError(t, err)
	wantRlimits(t, string(text))
	beyond := map[string]Rlimit{"core": {Soft: RlimitInfinity, Hard: RlimitInfinity},
		"nofile": {Soft: 1 << 20, Hard: 1 << 30}}
	if err := SetRlimits(procfs, p.ID(), beyond, func(string) bool { return false }); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]uint64{"core": someRlimits["core"].Hard, "nofile": someRlimits["nofile"].Hard} {
		var got unix.Rlimit
		if err := unix.Prlimit(child.PID, rlimits[name], nil, &got); err != nil ||
			got != (unix.Rlimit{Cur: want, Max: want}) {
			t.Errorf("%s, which may not be raised: %+v, want the hard limit %d (%v)", name, got, want, err)
		}
	}
	other := p.ID()
	other.StartTime++
	if err := SetRlimits(procfs, other, map[string]Rlimit{"core": {Soft: 1, Hard: 1}}, always); !errors.Is(err,
		ErrGone) {
		t.Errorf("another process of that number: %v", err)
	}
	w.Close()
	if _, err := child.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := SetRlimits(procfs, p.ID(), someRlimits, always); !errors.Is(err, ErrGone) {
		t.Errorf("after its end: %v", err)
	}
}
