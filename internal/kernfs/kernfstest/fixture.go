package kernfstest

import (
	"path"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

// Fixture returns the captured tree in a txtar file, whose root represents /. txtar has no symbolic
// links: one is an empty file named "link: FROM -> TO", where TO is what readlink returns. The
// comment at the top must say where the tree comes from: kernel, date, command. The tree is
// read-only and has the directories that its files need.
func Fixture(t testing.TB, file string) *kernfs.FS {
	t.Helper()
	a, err := txtar.ParseFile(file)
	must.NoError(t, err)
	if strings.TrimSpace(string(a.Comment)) == "" {
		t.Fatalf("fixture %s: no header that says where it comes from", file)
	}
	b := tree{files: map[string]string{}, links: map[string]string{}}
	for _, f := range a.Files {
		name := f.Name
		link, isLink := strings.CutPrefix(name, "link: ")
		if isLink {
			from, to, ok := strings.Cut(link, " -> ")
			if !ok || len(f.Data) > 0 {
				t.Fatalf("fixture %s: bad link %q", file, f.Name)
			}
			name = from
			b.links[name] = to
		} else {
			b.files[name] = string(f.Data)
		}
		if path.Clean(name) != name || path.IsAbs(name) || strings.HasPrefix(name, "../") {
			t.Fatalf("fixture %s: bad name %q", file, f.Name)
		}
	}
	return kernfs.New(b, "/")
}

// FixtureRoots returns proc, sys and sys/fs/cgroup of a captured tree.
func FixtureRoots(t testing.TB, file string) kernfs.Roots {
	t.Helper()
	root := Fixture(t, file)
	var r kernfs.Roots
	for _, d := range []struct {
		to   **kernfs.FS
		path string
	}{{&r.Proc, "proc"}, {&r.Sys, "sys"}, {&r.Cgroup, "sys/fs/cgroup"}} {
		sub, err := root.Sub(d.path)
		must.NoError(t, err)
		*d.to = sub
	}
	return r
}
