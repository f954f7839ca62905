package inventory

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What is in the place of a file is replaced, not followed.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	target, name := filepath.Join(dir, "target"), filepath.Join(dir, "name")
	if err := os.WriteFile(target, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
	if err := Replace(name, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(target); err != nil || string(b) != "kept" {
		t.Errorf("target: %s, %v", b, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Replace(filepath.Join(dir, "full"), nil); err == nil {
		t.Error("a directory was replaced")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := Replace(filepath.Join(dir, "none", "name"), nil); !os.IsNotExist(err) {
		t.Errorf("%v, want %v", err, fs.ErrNotExist)
	}
}

// What a killed process left goes when nobody can be at it any more; everything else stays.
func TestRemoveUnfinished(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for name, at := range map[string]time.Time{".hookhost-1.tmp": old, ".hookhost-2.tmp": time.Now(), ".hookhost-x.json": old, "hookhost-3.tmp": old} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := RemoveUnfinished(dir); err != nil {
			t.Error(err)
		}
	}
	entries, err := os.ReadDir(dir)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if diff := cmp.Diff([]string{".hookhost-2.tmp", ".hookhost-x.json", "hookhost-3.tmp"}, left); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if err := RemoveUnfinished(filepath.Join(dir, "none")); err != nil {
		t.Errorf("no directory: %v", err)
	}
}
