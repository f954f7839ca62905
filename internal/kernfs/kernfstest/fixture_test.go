package kernfstest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

func TestFixtureMakesFilesAndLinks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tree.txtar")
	text := "Made by hand for this test.\n\n-- sys/a/b/file --\none\n-- link: sys/link -> a/b --\n-- link: sys/a/up " +
		"-> ../link/file --\n" +
		"-- link: out -> ../etc --\n-- link: abs -> /etc --\n-- link: loop -> loop --\n-- proc/mounts --\n"
	must.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	root := Fixture(t, file)
	for name, want := range map[string]string{"sys/a/b/file": "one\n", "sys/link/file": "one\n", "sys/a/up": "one\n",
		"proc/mounts": ""} {
		if got := mustRead(t, root, name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]unix.Errno{"out": unix.EXDEV, "out/passwd": unix.EXDEV, "abs": unix.EXDEV,
		"loop": unix.ELOOP, "sys/none": unix.ENOENT, "sys/a/b": unix.EISDIR} {
		if _, err := root.ReadFile(name); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	if err := root.Write("sys/a/b/file", "two"); !errors.Is(err, unix.EACCES) {
		t.Errorf("write: got %v, want EACCES", err)
	}
	dirs, err := FixtureRoots(t, file).Sys.Dirs("a")
	if err != nil || !cmp.Equal(dirs, []string{"b"}) {
		t.Errorf("directories: %v, %v", dirs, err)
	}
}
