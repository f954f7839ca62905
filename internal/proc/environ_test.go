package proc

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

func TestEnvironIsReadWhole(t *testing.T) {
	procfs, err := kernfs.Open("/proc")
	must.NoError(t, err)
	long := "LONG=" + strings.Repeat("x", 100_000)
	cmd := exec.Command("/bin/cat")
	cmd.Env = []string{"A=1", long, "EMPTY="}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	must.NoError(t, cmd.Start())
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	want := "A=1\x00" + long + "\x00EMPTY=\x00"
	must.Eventually(t, "the whole environment is read", func() bool { // execve may not have it in place yet
		b, err := Environ(procfs, cmd.Process.Pid)
		must.NoError(t, err)
		return string(b) == want
	})
	b := []byte("A=1\x00AB=2\x00A=3\x00EMPTY=\x00B")
	for name, want := range map[string]string{"A": "1", "AB": "2", "EMPTY": "", "B": "none", "LON": "none",
		"": "none"} {
		if got, ok := Getenv(b, name); ok != (want != "none") || ok && got != want {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
	p, err := Read(procfs, cmd.Process.Pid)
	must.NoError(t, err)
	if age := Age(p.StartTime); age < 0 || age > time.Hour {
		t.Errorf("age %v", age)
	}
	if older := Age(p.StartTime - ticks); older < time.Second {
		t.Errorf("a second older: %v", older)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if _, err := Environ(procfs, cmd.Process.Pid); !errors.Is(err, ErrGone) {
		t.Errorf("of a process that is gone: %v", err)
	}
}

func TestEnvironIsBounded(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.Mkdir(dir+"/7", 0o755))
	must.NoError(t, os.WriteFile(dir+"/7/environ", bytes.Repeat([]byte("A=1\x00"), maxEnviron), 0o600))
	procfs, err := kernfs.Open(dir)
	must.NoError(t, err)
	if b, err := Environ(procfs, 7); len(b) != maxEnviron || err != nil {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// FuzzGetenv looks a variable up as a second reader does: one entry after the other.
func FuzzGetenv(f *testing.F) {
	f.Add([]byte("A=1\x00AB=2\x00A=3\x00"), "A")
	f.Add([]byte("\x00=x\x00A"), "")
	f.Fuzz(func(t *testing.T, environ []byte, name string) {
		want, found := "", false
		for _, entry := range strings.Split(string(environ), "\x00") {
			if n, v, is := strings.Cut(entry, "="); is && n == name && name != "" && !found {
				want, found = v, true
			}
		}
		if got, ok := Getenv(environ, name); (got != want || ok != found) && !strings.ContainsAny(name, "=\x00") {
			t.Errorf("%q of %q: %q, %v, want %q, %v", name, environ, got, ok, want, found)
		}
	})
}
