package kernfs

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

func TestOpenDir(t *testing.T) {
	top := newTree(t)
	f := openDir(t, top, false)
	d, err := f.OpenDir("a/b")
	must.NoError(t, err)
	// Another directory gets the name.
	must.NoError(t, os.Rename(filepath.Join(top, "a/b"), filepath.Join(top, "a/before")))
	must.NoError(t, os.Mkdir(filepath.Join(top, "a/b"), 0o755))
	if b, err := d.ReadFile("file"); err != nil || string(b) != "one\n" {
		t.Errorf("got %q, %v", b, err)
	}
	if _, err := d.ReadFile("none"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "a/b/none") {
		t.Errorf("no file: %v", err)
	}
	if _, err := d.ReadFile("../up"); !errors.Is(err, unix.EXDEV) {
		t.Errorf("a name that leaves: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	if _, err := f.OpenDir("a/before/file"); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a file: %v", err)
	}
	if _, err := f.OpenDir("out"); !errors.Is(err, unix.EXDEV) {
		t.Errorf("a link that leads out: %v", err)
	}
	if _, err := openDir(t, top, true).OpenDir("a"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("before Linux 5.6: %v", err)
	}
	if _, err := New(inMemory{f}, top).OpenDir("a"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a backend that cannot: %v", err)
	}
}

// A directory of /proc is no later process's.
func TestOpenDirOfProcess(t *testing.T) {
	procfs, err := Open("/proc")
	must.NoError(t, err)
	cmd := exec.Command("/bin/sleep", "60")
	must.NoError(t, cmd.Start())
	d, err := procfs.OpenDir(strconv.Itoa(cmd.Process.Pid))
	must.NoError(t, err)
	defer d.Close()
	_, err = d.ReadFile("stat")
	cmd.Process.Kill()
	cmd.Wait()
	if err != nil {
		t.Error(err)
	}
	if _, err := d.ReadFile("stat"); !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH) {
		t.Errorf("of a process that was reaped: %v", err)
	}
}

func TestNumbersReadsWholeNumbersAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(string) *FS) {
		dir := t.TempDir()
		var want []int
		for _, name := range []string{"0", "12", "2147483647", "2147483648", "99999999999999999999", "1a", "a1", "-1",
			"+1", "self"} {
			must.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
		}
		for n := range 1500 { // more than one call returns
			want = append(want, 1000+n)
			must.NoError(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(1000+n)), nil, 0o644))
		}
		want = append(want, 0, 12, 1<<31-1)
		slices.Sort(want)
		f := open(dir)
		for _, f := range []*FS{f, New(inMemory{f}, dir)} {
			got, err := f.Numbers(".")
			if slices.Sort(got); err != nil || !slices.Equal(got, want) {
				t.Errorf("%d numbers, %v, want %d", len(got), err, len(want))
			}
			if _, err := f.Numbers("12"); !errors.Is(err, unix.ENOTDIR) {
				t.Errorf("a file: %v", err)
			}
		}
	})
}

// inMemory is a backend whose files are not this package's.
type inMemory struct{ *FS }

func (m inMemory) OpenFile(name string, flag int) (File, error) {
	f, err := m.FS.OpenFile(name, flag)
	return struct{ File }{f}, err
}

func (m inMemory) Mkdir(string, fs.FileMode) error { return unix.EPERM }

func TestWriterWritesAgainAndAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(string) *FS) {
		dir := t.TempDir()
		f := open(dir)
		w := f.Writer("file")
		if err := w.Write("1"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("no file: %v", err)
		}
		must.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o644))
		for _, value := range []string{"1", "22"} {
			if err := w.Write(value); err != nil {
				t.Error(err)
			}
		}
		if err := w.Write(""); !errors.Is(err, unix.EINVAL) {
			t.Errorf("an empty value: %v", err)
		}
		for range 2 {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
		if b, err := f.ReadFile("file"); err != nil || string(b) != "122" {
			t.Errorf("got %q, %v", b, err)
		}
	})
}
