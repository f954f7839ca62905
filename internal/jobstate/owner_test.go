package jobstate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestForeignOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to give files away")
	}
	const nobody = 65534
	wants := func(what string, err error, text string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %q", what, err, text)
		}
	}
	dir := filepath.Join(t.TempDir(), "state")
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.NextSequence(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(s.path, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	_, err = s.Get(t.Context(), "1.srv")
	wants("foreign jobs.db", err, "owned by uid 65534")
	if _, err := os.Stat(s.path); err != nil {
		t.Errorf("a foreign jobs.db was set aside: %v", err)
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir)
	wants("foreign directory", err, "owned by uid 65534")
}

func TestSymlinks(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(link); err == nil || !strings.Contains(err.Error(), unix.ENOTDIR.Error()) {
		t.Errorf("a link as the state directory: %v", err)
	}
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", s.path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "1.srv"); err == nil {
		t.Error("a link as jobs.db: no error")
	}
}
