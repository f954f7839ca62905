package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
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
