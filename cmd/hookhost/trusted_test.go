package main_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// Root does not believe a configuration that somebody else can write.
func TestConfigurationThatOthersCanWriteIsRefused(t *testing.T) {
	chmod := func(path string, mode os.FileMode) func() error {
		return func() error { return os.Chmod(path, mode) }
	}
	n := newNode(t)
	file := n.path("hookhost.toml")
	for _, tt := range []struct {
		name       string
		open, shut func() error
		says       string
	}{
		{"anybody's mode", chmod(file, 0o666), chmod(file, 0o644), "mode 0666 lets others write to it"},
		{"a group's mode", chmod(file, 0o664), chmod(file, 0o644), "mode 0664 lets others write to it"},
		{"another's file", func() error { return os.Chown(file, ownerUID, 0) },
			func() error { return os.Chown(file, 0, 0) },
			fmt.Sprintf("owned by uid %d", ownerUID)},
		{"anybody's directory", chmod(n.dir, 0o777), chmod(n.dir, 0o755), "mode 0777 lets others write to it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			must.NoError(t, tt.open())
			for _, args := range [][]string{{"run", "--report=none", "--", "true"}, {"serve"}, {"config", "show"}} {
				if r := n.hookhost(args...); r.status == 0 || !strings.Contains(r.stderr, tt.says) {
					t.Fatalf("%s: status %d, %s; want %q", args[0], r.status, r.stderr, tt.says)
				}
			}
			must.NoError(t, tt.shut())
			if r := n.hookhost("run", "--report=none", "--", "true"); r.status != 0 {
				t.Errorf("mended: status %d", r.status)
			}
		})
	}
}

// Others could put another socket in the place of the daemon's, and take away its records of jobs.
// The daemon makes nothing in such a directory.
func TestSocketInADirectoryOfOthersIsRefused(t *testing.T) {
	n := newNode(t)
	dir, link := n.path("theirs"), n.path("link")
	must.NoError(t, os.Mkdir(dir, 0o755), os.Symlink(dir, link))
	for _, tt := range []struct {
		dir  string
		uid  int
		mode os.FileMode
		says string
	}{
		{dir, 0, 0o777 | os.ModeSticky, "mode 1777 lets others write to it"},
		{dir, ownerUID, 0o755, fmt.Sprintf("owned by uid %d", ownerUID)},
		{link, 0, 0o755, "not a directory"},
	} {
		must.NoError(t, os.Chown(dir, tt.uid, 0), os.Chmod(dir, tt.mode))
		cmd := n.command("serve")
		cmd.Env = append(cmd.Env, "HOOKHOST_SOCKET="+tt.dir+"/s")
		if r := n.finish(cmd); r.status == 0 || !strings.Contains(r.stderr, tt.says) {
			t.Fatalf("%s: status %d, %s; want %q", tt.dir, r.status, r.stderr, tt.says)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}
