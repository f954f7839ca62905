package kernfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

// ways are the two ways to open below a directory: openat2, and os.Root on kernels before 5.6.
var ways = map[string]bool{"openat2": false, "os.Root": true}

// onBoth runs a test on both ways.
func onBoth(t *testing.T, test func(t *testing.T, open func(dir string) *FS)) {
	for name, old := range ways {
		t.Run(name, func(t *testing.T) {
			test(t, func(dir string) *FS { return openDir(t, dir, old) })
		})
	}
}

func openDir(t testing.TB, dir string, old bool) *FS {
	t.Helper()
	k, err := openKernel(dir)
	must.NoError(t, err)
	k.old.Store(old)
	return New(k, dir)
}

// newTree makes a directory with a few files, and a secret beside it.
func newTree(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "root")
	for _, d := range []string{"root/a/b", "outside"} {
		must.NoError(t, os.MkdirAll(filepath.Join(top, d), 0o755))
	}
	for name, text := range map[string]string{"root/a/b/file": "one\n", "outside/secret": "secret\n"} {
		must.NoError(t, os.WriteFile(filepath.Join(top, name), []byte(text), 0o644))
	}
	for name, to := range map[string]string{
		"root/inside": "a/b", "root/a/up": "../inside/file", "root/out": "../outside",
		"root/a/out": "../../outside/secret",
		"root/abs":   filepath.Join(top, "outside"), "root/same": filepath.Join(dir, "a"),
	} {
		must.NoError(t, os.Symlink(to, filepath.Join(top, name)))
	}
	return dir
}

func TestReadFile(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(string) *FS) {
		dir := newTree(t)
		f := open(dir)
		for _, size := range []int{0, 1, 511, 512, 513, 1 << 20} {
			want := bytes.Repeat([]byte{'x'}, size)
			must.NoError(t, os.WriteFile(filepath.Join(dir, "sized"), want, 0o644))
			got, err := f.ReadFile("sized")
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes: got %d, %v", size, len(got), err)
			}
		}
		for _, name := range []string{"a/b/file", "./a//b/./file", "inside/file", "a/up"} {
			if b, err := f.ReadFile(name); err != nil || string(b) != "one\n" {
				t.Errorf("%s: got %q, %v", name, b, err)
			}
		}
		for name, want := range map[string]error{"none": fs.ErrNotExist, "a/b": unix.EISDIR, "a/b/file/x": unix.ENOTDIR,
			"a\x00b": unix.EINVAL} {
			if b, err := f.ReadFile(name); !errors.Is(err, want) || b != nil {
				t.Errorf("%q: got %q, %v, want %v", name, b, err, want)
			}
		}
	})
}

func TestNoNameLeavesTheDirectory(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(string) *FS) {
		f := open(newTree(t))
		sub, err := f.Sub("a")
		must.NoError(t, err)
		for name, at := range map[string]*FS{
			"..": f, "../outside/secret": f, "a/../../outside/secret": f, "a/../a/b/file": f, "/etc/passwd": f, "/": f,
			"out/secret": f, "a/out": f, "abs/secret": f, "same/b/file": f, "../a/b/file": sub,
		} {
			if b, err := at.ReadFile(name); !errors.Is(err, unix.EXDEV) {
				t.Errorf("ReadFile(%q): got %q, %v, want EXDEV", name, b, err)
			}
			if err := at.Write(name, "x"); !errors.Is(err, unix.EXDEV) {
				t.Errorf("Write(%q): got %v, want EXDEV", name, err)
			}
			if at.Exists(name) {
				t.Errorf("Exists(%q)", name)
			}
		}
		for _, name := range []string{"../new", "out/new", "abs/new", "/tmp/kernfs_new"} {
			if err := f.Mkdir(name); !errors.Is(err, unix.EXDEV) {
				t.Errorf("Mkdir(%q): got %v, want EXDEV", name, err)
			}
			if err := f.Rmdir(name); !errors.Is(err, unix.EXDEV) {
				t.Errorf("Rmdir(%q): got %v, want EXDEV", name, err)
			}
		}
		for _, name := range []string{"..", "a/../..", "/a"} {
			if _, err := f.Sub(name); !errors.Is(err, unix.EXDEV) {
				t.Errorf("Sub(%q): got %v, want EXDEV", name, err)
			}
		}
		if _, err := f.ReadFile("a..b"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a name with two dots: got %v, want ErrNotExist", err)
		}
	})
}

// TestMagicLinks: /proc/PID/root and its like are doors to anywhere.
func TestMagicLinks(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(string) *FS) {
		proc := open("/proc")
		for _, name := range []string{"self/root/etc/passwd", "self/root", "self/cwd", "self/exe", "self/fd/0",
			fmt.Sprintf("%d/root", os.Getpid())} {
			if _, err := proc.ReadFile(name); !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.EXDEV) {
				t.Errorf("%s: got %v, want ELOOP or EXDEV", name, err)
			}
		}
		if b, err := proc.ReadFile("self/stat"); err != nil || !bytes.HasPrefix(b, fmt.Append(nil, os.Getpid(), " (")) {
			t.Errorf("self/stat: got %q, %v", b, err)
		}
	})
}

func TestWriteNeverCreates(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(string) *FS) {
		dir := newTree(t)
		f := open(dir)
		if err := f.Write("a/memory.limt", "1"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("misspelt name: got %v, want ErrNotExist", err)
		}
		if _, err := os.Stat(filepath.Join(dir, "a/memory.limt")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the file is there: %v", err)
		}
		if _, err := f.OpenFile("a/memory.limt", os.O_RDWR); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("OpenFile: got %v, want ErrNotExist", err)
		}
		must.NoError(t, f.Write("a/b/file", "tw"))
		// Neither truncated nor appended: the kernel's files take the value as it is.
		if b, err := f.ReadFile("a/b/file"); err != nil || string(b) != "twe\n" {
			t.Errorf("after Write: %q, %v", b, err)
		}
	})
}

// TestErrorTexts pins the texts, for users see them.
func TestErrorTexts(t *testing.T) {
	dir := newTree(t)
	f := New(openDir(t, dir, false).backend, "/fs")
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"write", f.Write("job/memory.max", "8G"), `write "8G" to /fs/job/memory.max: no such file or directory`},
		{"write outside", f.Write("../x", "8G"), `write "8G" to ../x: leaves /fs: invalid cross-device link`},
		{"write nothing", f.Write("a/b/file", ""), `write "" to /fs/a/b/file: invalid argument`},
		{"mkdir", f.Mkdir("a"), "mkdir /fs/a: file exists"},
		{"mkdir outside", f.Mkdir("/a"), "mkdir /a: leaves /fs: invalid cross-device link"},
		{"rmdir", f.Rmdir("a"), "rmdir /fs/a: directory not empty"},
		{"read", second(f.ReadFile("none")), "open /fs/none: no such file or directory"},
		{"read directory", second(f.ReadFile("a")), "read /fs/a: is a directory"},
		{"directories", second(f.Dirs("a/b/file")), "read directory /fs/a/b/file: not a directory"},
		{"number", second(f.Uint("a/b/file")),
			`parse /fs/a/b/file: "one": strconv.ParseUint: parsing "one": invalid syntax`},
		{"keyed", second(f.Keyed("a/b/file")), `parse /fs/a/b/file: line "one": no value`},
		{"ids", second(f.IDSet("a/b/file")), `parse /fs/a/b/file: "one": id list "one": bad part "one"`},
		{"attribute", second(f.Xattr("none", "trusted.x")), "getxattr trusted.x /fs/none: no such file or directory"},
		{"watch", second(f.Watch("none")), "watch /fs/none: no such file or directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.err == nil || tt.err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", tt.err, tt.want)
			}
		})
	}
	var w *WriteError
	if err := f.Write("none", "8G"); !errors.As(err, &w) || w.File != "/fs/none" || w.Value != "8G" ||
		w.Err != unix.ENOENT {
		t.Errorf("WriteError: %#v", w)
	}
}

func second[T any](_ T, err error) error { return err }

func TestDirectoriesAreMadeAndRemoved(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(string) *FS) {
		f := open(newTree(t))
		for _, name := range []string{"job", "a/job", "a/b/job"} {
			must.NoError(t, f.Mkdir(name))
			if err := f.Mkdir(name); !errors.Is(err, fs.ErrExist) {
				t.Errorf("again: got %v, want ErrExist", err)
			}
			must.NoError(t, f.Rmdir(name))
			if err := f.Rmdir(name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("again: got %v, want ErrNotExist", err)
			}
		}
		if err := f.Mkdir("none/job"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("no parent: got %v, want ErrNotExist", err)
		}
		// A file and a link are no directories.
		for _, name := range []string{"a/b/file", "inside"} {
			if err := f.Rmdir(name); !errors.Is(err, unix.ENOTDIR) {
				t.Errorf("Rmdir(%s): got %v, want ENOTDIR", name, err)
			}
		}
		if err := f.Mkdir("inside/job"); err != nil { // through a link that stays inside
			t.Error(err)
		}
		dirs, err := f.Dirs("a/b")
		if err != nil || strings.Join(dirs, " ") != "job" {
			t.Errorf("Dirs: %v, %v", dirs, err)
		}
		sub, err := f.Sub("a")
		must.NoError(t, err)
		if dirs, err := sub.Dirs("."); err != nil || strings.Join(dirs, " ") != "b" {
			t.Errorf("Dirs below Sub: %v, %v", dirs, err)
		}
		if !sub.Exists("b/file") || !sub.Exists(".") || sub.Exists("file") {
			t.Error("Exists below Sub")
		}
		if got := sub.Path("b"); got != f.Path("a/b") {
			t.Errorf("Path below Sub: %s", got)
		}
	})
}

func TestReadDirInParts(t *testing.T) {
	f := openDir(t, newTree(t), false)
	d, err := f.OpenFile(".", os.O_RDONLY)
	must.NoError(t, err)
	defer d.Close()
	seen := map[string]bool{}
	for {
		entries, err := d.ReadDir(1)
		for _, e := range entries {
			seen[e.Name()] = true
		}
		if errors.Is(err, io.EOF) {
			break
		}
		must.NoError(t, err)
	}
	if len(seen) != 5 {
		t.Errorf("got %v, want 5 names", seen)
	}
}

// TestCloseTwice: the number may be someone else's by then.
func TestCloseTwice(t *testing.T) {
	f := openDir(t, newTree(t), false)
	a, err := f.OpenFile("a/b/file", os.O_RDONLY)
	must.NoError(t, err)
	must.NoError(t, a.Close())
	b, err := f.OpenFile("a/b/file", os.O_RDONLY)
	must.NoError(t, err)
	defer b.Close()
	if err := a.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("second Close: got %v, want ErrClosed", err)
	}
	if _, err := b.Read(make([]byte, 1)); err != nil {
		t.Errorf("the other file: %v", err)
	}
}

func TestOpenTakesDirectoriesAlone(t *testing.T) {
	if _, err := Open("/nonexistent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: got %v, want ErrNotExist", err)
	}
	if _, err := Open("/proc/self/stat"); err == nil {
		t.Error("a file opened as a root")
	}
	if _, err := Open("/proc"); err != nil {
		t.Error(err)
	}
}

// A directory and a file change their owner, each alone, and a link is not followed.
func TestChownChangesOneOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
	onBoth(t, func(t *testing.T, open func(string) *FS) {
		f := open(newTree(t))
		for _, name := range []string{"a/b", "a/b/file"} {
			if st, err := f.Stat(name); err != nil || st.UID != 0 {
				t.Errorf("%s: %+v, %v", name, st, err)
			}
			must.NoError(t, f.Chown(name, 1234))
			if st, err := f.Stat(name); err != nil || st.UID != 1234 {
				t.Errorf("%s: %+v, %v; want 1234", name, st, err)
			}
			must.NoError(t, f.Chown(name, 0))
		}
		if err := f.Chown("none", 1234); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("chown of nothing: %v", err)
		}
		if _, err := f.Stat("out"); !errors.Is(err, unix.EXDEV) && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("stat of what is outside: %v", err)
		}
	})
}

// bare is a backend without watches, attributes and owners.
type bare struct{ Backend }

func TestBareBackendIsUnsupported(t *testing.T) {
	f := New(bare{}, "/fs")
	if _, err := f.Watch("x"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("Watch: %v", err)
	}
	if _, err := f.Xattr("x", "trusted.x"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("Xattr: %v", err)
	}
	if err := f.SetXattr("x", "trusted.x", nil); !errors.Is(err, ErrUnsupported) {
		t.Errorf("SetXattr: %v", err)
	}
	if _, err := f.Stat("x"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("Stat: %v", err)
	}
	if err := f.Chown("x", 1); !errors.Is(err, ErrUnsupported) {
		t.Errorf("Chown: %v", err)
	}
	// A plain file system announces nothing.
	if _, err := openDir(t, newTree(t), false).Watch("a/b/file"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("Watch of a plain file: %v", err)
	}
}
