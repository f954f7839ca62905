package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

func TestOwnCgroupIsThatOfSystemdsHierarchy(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"v1", "3:cpu,cpuacct:/a\n1:name=systemd:/system.slice/b.service\n", "/system.slice/b.service"},
		{"hybrid", "1:name=systemd:/b\n0::/c:d\n", "/b"},
		{"v2", "0::/user.slice/c:d.scope\n", "/user.slice/c:d.scope"},
		{"v1 without systemd", "3:cpu,cpuacct:/a\n", ""},
		{"cut off", "0:", ""},
	} {
		dir := t.TempDir()
		must.NoError(t, os.Mkdir(filepath.Join(dir, "self"), 0o700))
		must.NoError(t, os.WriteFile(filepath.Join(dir, "self", "cgroup"), []byte(tt.text), 0o600))
		proc, err := kernfs.Open(dir)
		must.NoError(t, err)
		if got := BySystemd(proc); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
