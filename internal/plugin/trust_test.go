package plugin

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

// trusted makes a directory that nobody else can write to, all the way up.
func trusted(t *testing.T) string {
	t.Helper()
	kernfstest.NeedRoot(t)
	dir, err := os.MkdirTemp("/root", "hhtest-host-")
	if err != nil {
		if dir, err = os.MkdirTemp("/run", "hhtest-host-"); err != nil {
			t.Skip(err)
		}
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestOpenTrusted(t *testing.T) {
	tests := []struct {
		name  string
		setUp func(dir string) error // makes dir/a/f something else
		path  string                 // below dir
		err   string
	}{
		{name: "fine", path: "a/f"},
		{name: "through a link", path: "link/f", setUp: func(d string) error { return os.Symlink("a", d+"/link") }},
		{name: "through an absolute link", path: "link",
			setUp: func(d string) error { return os.Symlink(d+"/a/../a/f", d+"/link") }},
		{name: "missing", path: "a/g", err: "/a/g: no such file"},
		{name: "a directory", path: "a", err: "not a regular file"},
		{name: "a file in the way", path: "a/f/g", err: "/a/f: not a directory"},
		{name: "a fifo", path: "a/p", setUp: func(d string) error { return mkfifo(d + "/a/p") },
			err: "not a regular file"},
		{name: "link to itself", path: "loop", setUp: func(d string) error { return os.Symlink("loop", d+"/loop") },
			err: "too many levels"},
		{name: "file of another user", path: "a/f", setUp: func(d string) error { return os.Chown(d+"/a/f", 65534, 0) },
			err: "owned by uid 65534"},
		{name: "file for the group", path: "a/f", setUp: func(d string) error { return os.Chmod(d+"/a/f", 0o775) },
			err: "mode 0775 lets others write to it"},
		{name: "file for all", path: "a/f", setUp: func(d string) error { return os.Chmod(d+"/a/f", 0o757) },
			err: "mode 0757"},
		{name: "directory of another user", path: "a/f",
			setUp: func(d string) error { return os.Chown(d+"/a", 65534, 0) }, err: "/a: owned by uid 65534"},
		{name: "directory for all", path: "a/f", setUp: func(d string) error { return os.Chmod(d+"/a", 0o777) },
			err: "/a: mode 0777"},
		{name: "root's in a sticky directory", path: "a/f",
			setUp: func(d string) error { return os.Chmod(d+"/a", 0o777|os.ModeSticky) }},
		{name: "another's in a sticky directory", path: "a/b/f", setUp: func(d string) error {
			return errors.Join(os.Chmod(d+"/a", 0o777|os.ModeSticky), os.Mkdir(d+"/a/b", 0o755),
				os.Chown(d+"/a/b", 65534, 0))
		}, err: "/a/b: owned by uid 65534"},
		{name: "another's link in a sticky directory", path: "a/link", setUp: func(d string) error {
			return errors.Join(os.Chmod(d+"/a", 0o777|os.ModeSticky), os.Symlink("f", d+"/a/link"),
				os.Lchown(d+"/a/link", 65534, 0))
		}, err: "/a/link: owned by uid 65534"},
		{name: "another's sticky directory", path: "a/f", setUp: func(d string) error {
			return errors.Join(os.Chmod(d+"/a", 0o777|os.ModeSticky), os.Chown(d+"/a", 65534, 0),
				os.Chmod(d+"/a", 0o777|os.ModeSticky))
		}, err: "/a: owned by uid 65534"},
		{name: "linked directory for all", path: "link/f", setUp: func(d string) error {
			return errors.Join(os.Symlink("a", d+"/link"), os.Chmod(d+"/a", 0o777))
		}, err: "/a: mode 0777"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := trusted(t)
			if err := errors.Join(os.Mkdir(dir+"/a", 0o755),
				os.WriteFile(dir+"/a/f", []byte("content"), 0o644)); err != nil {
				t.Fatal(err)
			}
			if tt.setUp != nil {
				if err := tt.setUp(dir); err != nil {
					t.Fatal(err)
				}
			}
			b, err := paths{}.read(filepath.Join(dir, tt.path), 100)
			if tt.err == "" && (err != nil || string(b) != "content") {
				t.Errorf("%q, %v", b, err)
			}
			if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

func TestOpenUnsafe(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (paths{unsafeDirs: true}).read(path, 1); err != nil {
		t.Error(err)
	}
	if _, err := (paths{unsafeDirs: true}).read(path, 0); err == nil {
		t.Error("a file beyond the limit was read")
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := (paths{unsafeDirs: true}).read(path, 1); err != nil {
		t.Error(err)
	}
	if _, err := (paths{}).read(path, 1); err == nil {
		t.Error("a file in a directory that all can write to is trusted")
	}
	if _, err := (paths{}).open("f"); err == nil {
		t.Error("a relative path is taken")
	}
}

func mkfifo(path string) error { return unix.Mkfifo(path, 0o600) }
