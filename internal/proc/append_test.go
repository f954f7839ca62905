package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// Lines for a job's owner go where the owner could write, and nowhere else, whatever lies under the
// name.
func TestTextIsAppendedWhereItsUserCouldWrite(t *testing.T) {
	kernfstest.NeedRoot(t)
	const nobody = 65534
	dir := t.TempDir()
	for d := dir; len(d) > 1; d = filepath.Dir(d) { // others are to come here
		if info, err := os.Stat(d); err == nil && info.Mode().Perm()&0o005 != 0o005 {
			must.NoError(t, os.Chmod(d, info.Mode().Perm()|0o005))
		}
	}
	file := func(name string, uid, gid int, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must.NoError(t, errors.Join(os.WriteFile(path, []byte("before\n"), 0o600), os.Chown(path, uid, gid),
			os.Chmod(path, mode)))
		return path
	}
	own := file("own", nobody, nobody, 0o600)
	link, fifo, hard := filepath.Join(dir, "link"), filepath.Join(dir, "fifo"), filepath.Join(dir, "hard")
	roots := file("roots", 0, 0, 0o644)
	must.NoError(t, errors.Join(os.Symlink(own, link), unix.Mkfifo(fifo, 0o666), os.Chown(fifo, nobody, nobody),
		os.Link(roots, hard)))
	for _, tt := range []struct {
		name, path string
		want       error // nil: it is written to
	}{
		{"own", own, nil},
		{"a group's", file("group", 0, nobody, 0o660), nil},
		{"root's", roots, unix.EACCES},
		{"root's by another name", hard, unix.EACCES},
		{"root's group's", file("rootgroup", 0, 0, 0o660), unix.EACCES},
		{"a link", link, unix.ELOOP},
		{"none", filepath.Join(dir, "none"), unix.ENOENT},
		{"a directory", dir, unix.EISDIR},
	} {
		before, _ := os.ReadFile(tt.path)
		err := AppendAs(nobody, nobody, tt.path, "line\n")
		after, _ := os.ReadFile(tt.path)
		if !errors.Is(err, tt.want) || tt.want == nil && string(after) != string(before)+"line\n" ||
			tt.want != nil && string(after) != string(before) {
			t.Errorf("%s: %v, holds %q, want %v", tt.name, err, after, tt.want)
		}
	}
	done := make(chan error)
	go func() { done <- AppendAs(nobody, nobody, fifo, "line\n") }()
	select {
	case err := <-done: // ENXIO: nobody reads
		if err == nil {
			t.Error("a fifo was taken")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it waits for a reader of a fifo")
	}
	if err := AppendAs(nobody, nobody, "own", "line\n"); err == nil {
		t.Error("a relative path was taken")
	}
	// No other thread became what this one did.
	for i := range 20 {
		must.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("after", i)), nil, 0o600))
		if _, err := os.ReadFile(roots); err != nil {
			t.Fatal(err)
		}
	}
}
