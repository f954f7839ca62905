package plugin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// Directories that a job's owner makes beside his hook's socket are not followed down.
func TestDirectoriesOfOwnersAreLeft(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "host-1", "plugin-dir1")
	deep := filepath.Join(program, "a", "b")
	must.NoError(t, os.MkdirAll(deep, 0o755))
	must.NoError(t, os.WriteFile(filepath.Join(program, "socket"), nil, 0o600))
	if err := removeDir(program, 1); err == nil {
		t.Error("a tree was removed")
	}
	if names, _ := filepath.Glob(program + "/*"); len(names) != 1 {
		t.Errorf("left %v, want only the directory", names)
	}
	if err := prepareRuntime(dir); err != nil {
		t.Errorf("a host does not start because of it: %v", err)
	}
	must.NoError(t, os.RemoveAll(deep))
	if err := removeDir(filepath.Join(dir, "host-1"), programDepth); err != nil {
		t.Error(err)
	}
}
