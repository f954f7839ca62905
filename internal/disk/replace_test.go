package disk

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

func TestReplaceFollowsNoLinkAndLeavesNothing(t *testing.T) {
	for name, replace := range map[string]func(string, []byte, fs.FileMode) error{
		"on disk": Replace, "for this boot": ReplaceUnsynced,
	} {
		t.Run(name, func(t *testing.T) { testReplace(t, replace) })
	}
}

func testReplace(t *testing.T, replace func(string, []byte, fs.FileMode) error) {
	dir := t.TempDir()
	target, name := filepath.Join(dir, "target"), filepath.Join(dir, "name")
	must.NoError(t, os.WriteFile(target, []byte("kept"), 0o600))
	must.NoError(t, os.Symlink(target, name))
	must.NoError(t, replace(name, []byte("new"), 0o640))
	if b, err := os.ReadFile(target); err != nil || string(b) != "kept" {
		t.Errorf("target: %s, %v", b, err)
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != "new" {
		t.Errorf("%s, %v", b, err)
	}
	if info, err := os.Lstat(name); err != nil || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	must.NoError(t, os.Mkdir(filepath.Join(dir, "full"), 0o755))
	if err := replace(filepath.Join(dir, "full"), nil, 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := replace(filepath.Join(dir, "none", "name"), nil, 0o600); !os.IsNotExist(err) {
		t.Errorf("%v, want %v", err, fs.ErrNotExist)
	}
}

// A process of the group may open the file at any time.
func TestReplaceForGroupShowsNoOtherGroup(t *testing.T) {
	gid := os.Getegid()
	if os.Geteuid() == 0 {
		gid = 65534
	}
	path := filepath.Join(t.TempDir(), "name")
	replace := func() { must.NoError(t, ReplaceForGroup(path, []byte("text"), 0o640, gid)) }
	replace()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			var st unix.Stat_t
			if err := unix.Stat(path, &st); err != nil || int(st.Gid) != gid || st.Mode&0o777 != 0o640 {
				t.Errorf("group %d, mode %o, %v", st.Gid, st.Mode, err)
				return
			}
		}
	}()
	for range 500 {
		replace()
	}
	close(stop)
	<-stopped
}

// The remains of a killed process go when nobody can be at them any more. Everything else stays.
func TestRemoveUnfinishedSparesWhatMayStillBeWritten(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for name, at := range map[string]time.Time{".hookhost-1.tmp": old, ".hookhost-2.tmp": time.Now(),
		".hookhost-x.json": old, "hookhost-3.tmp": old} {
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		must.NoError(t, os.Chtimes(filepath.Join(dir, name), at, at))
	}
	for range 2 {
		if err := RemoveUnfinished(dir, time.Minute); err != nil {
			t.Error(err)
		}
	}
	entries, err := os.ReadDir(dir)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if diff := cmp.Diff([]string{".hookhost-2.tmp", ".hookhost-x.json", "hookhost-3.tmp"}, left); diff != "" ||
		err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if err := RemoveUnfinished(filepath.Join(dir, "none"), time.Minute); err != nil {
		t.Errorf("no directory: %v", err)
	}
}
