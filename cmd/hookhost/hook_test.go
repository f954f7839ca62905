package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// What `hook new` writes builds, passes its test, and rejects jobs once it is registered.
func TestNewHookBuildsPassesItsTestAndRejectsJobs(t *testing.T) {
	root, err := filepath.Abs("../..")
	must.NoError(t, err)
	for _, language := range []string{"go", "python"} {
		t.Run(language, func(t *testing.T) {
			must.BesideOthers(t)
			n := newNode(t)
			n.serve()
			command := func(dir, name string, args ...string) *exec.Cmd {
				cmd := exec.Command(name, args...)
				cmd.Dir, cmd.Env = dir, append(n.env(), "PATH="+built+":"+os.Getenv("PATH"))
				return cmd
			}
			newHook := []string{"hook", "new", "at-most", "--lang", language}
			if out, err := command(n.dir, filepath.Join(built, "hookhost"), newHook...).CombinedOutput(); err != nil {
				t.Fatalf("hook new: %v\n%s", err, out)
			}
			for _, target := range []string{"test", "install"} {
				out, err := command(n.path("at-most"), "make", target, "HOOKHOST="+root).CombinedOutput()
				if err != nil {
					t.Fatalf("make %s: %v\n%s", target, err, out)
				}
			}
			r := n.hookhost("run", "--job", "94.x", "-l", "ncpus=8", "--", "true")
			says := "rejected by 'at-most': ncpus=8: at most 4 on this host"
			if r.status != 125 || !strings.Contains(r.stderr, says) {
				t.Errorf("status %d, stderr %q", r.status, r.stderr)
			}
			if r := n.hookhost("run", "--job", "94.x", "-l", "ncpus=1", "--report=none", "--", "true"); r.status != 0 {
				t.Errorf("a job that it has nothing against: status %d, %q", r.status, r.stderr)
			}
			if out, err := command(n.dir, filepath.Join(built, "hookhost"), newHook...).CombinedOutput(); err == nil {
				t.Errorf("a directory that exists: %s", out)
			}
		})
	}
}

// A newcomer who writes the program of docs/hooks.md by hand, and registers it as the page says,
// has a hook that works.
func TestHookOfThePageWorks(t *testing.T) {
	must.BesideOthers(t)
	root, err := filepath.Abs("../..")
	must.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs/hooks.md"))
	must.NoError(t, err)
	source := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(page)
	if source == nil {
		t.Fatal("the page has no hook's source")
	}
	n := newNode(t)
	dir := n.path("deny")
	must.NoError(t, os.Mkdir(dir, 0o755))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), source[1], 0o644))
	for _, args := range [][]string{
		{"mod", "init", "example.com/deny"}, {"mod", "edit", "-replace", "github.com/hookhost/hookhost=" + root},
		{"mod", "tidy"}, {"build", "-o", "deny", "."},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	for _, args := range []string{
		"hook create deny", "hook set deny event=execjob_begin order=5",
		"hook import deny application/x-executable default " + filepath.Join(dir, "deny"),
	} {
		if r := n.hookhost(strings.Fields(args)...); r.status != 0 {
			t.Fatalf("%s: status %d", args, r.status)
		}
	}
	if r := n.hookhost("hook", "list", "deny"); r.status != 0 || !strings.Contains(r.stdout, "order = 5") {
		t.Errorf("list: %q", r.stdout)
	}
	r := n.hookhost("run", "--job", "93.x", "-l", "ncpus=8", "--", "true")
	if r.status != 125 || !strings.Contains(r.stderr,
		"execjob_begin request rejected by 'deny': ncpus=8: at most 4 on this host") {
		t.Errorf("status %d, stderr %q", r.status, r.stderr)
	}
	if r := n.hookhost("run", "--job", "93.x", "-l", "ncpus=1", "--report=none", "--", "true"); r.status != 0 {
		t.Errorf("a job that it has nothing against: status %d", r.status)
	}
	// Its configuration is its own file.
	must.NoError(t, os.WriteFile(n.path("deny.toml"), []byte("most = 0\n"), 0o644))
	if r := n.hookhost("hook", "import", "deny", "application/x-config", "default",
		n.path("deny.toml")); r.status != 0 {
		t.Fatalf("import of the configuration: %q", r.stderr)
	}
	if r := n.hookhost("run", "--job", "93.x", "-l", "ncpus=1", "--", "true"); r.status != 125 ||
		!strings.Contains(r.stderr, "at most 0 on this host") {
		t.Errorf("with a configuration: status %d, stderr %q", r.status, r.stderr)
	}
	if r := n.hookhost("hook", "delete", "deny"); r.status != 0 {
		t.Errorf("delete: %q", r.stderr)
	}
	if r := n.hookhost("run", "--job", "93.x", "-l", "ncpus=1", "--report=none", "--", "true"); r.status != 0 {
		t.Errorf("after delete: status %d", r.status)
	}
}
