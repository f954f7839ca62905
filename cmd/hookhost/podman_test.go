package main_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// archive packs the image as `docker save` does.
func (c *containers) archive() string {
	c.t.Helper()
	tar := func(args ...string) {
		args = append([]string{"--owner=0", "--group=0", "--numeric-owner"}, args...)
		if out, err := exec.Command("tar", args...).CombinedOutput(); err != nil {
			c.t.Fatalf("tar %q: %v\n%s", args, err, out)
		}
	}
	dir := c.path("out")
	tar("-C", c.path("image"), "-cf", filepath.Join(dir, "layer.tar"), ".")
	layer, err := os.ReadFile(filepath.Join(dir, "layer.tar"))
	must.NoError(c.t, err)
	for name, text := range map[string]string{
		"config.json": fmt.Sprintf(`{"architecture":%q,"os":"linux","rootfs":{"type":"layers","diff_ids":["sha256:%x"]}}`,
			runtime.GOARCH, sha256.Sum256(layer)),
		"manifest.json": `[{"Config":"config.json","RepoTags":["x:1"],"Layers":["layer.tar"]}]`,
	} {
		must.NoError(c.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	tar("-C", dir, "-cf", c.path("image.tar"), "manifest.json", "config.json", "layer.tar")
	must.NoError(c.t, os.Chmod(c.path("image.tar"), 0o644))
	return "docker-archive:" + c.path("image.tar")
}

// withRanges has a command see ranges of uids and gids for nobody, which podman wants.
func (c *containers) withRanges(cmd *exec.Cmd) *exec.Cmd {
	c.t.Helper()
	must.NoError(c.t, os.WriteFile(c.path("ranges"), []byte("nobody:200000:65536\nnogroup:200000:65536\n"), 0o644))
	args := append([]string{"-m", "sh", "-c", `mount --bind "$0" /etc/subuid && mount --bind "$0" /etc/subgid &&
exec "$@"`, c.path("ranges")}, cmd.Args...)
	unshare := exec.Command("unshare", args...)
	unshare.Env, unshare.Dir = cmd.Env, "/" // the image has the job's directory
	return unshare
}

// With podman a job runs in its image: the user, the environment, the exit status and signals
// are as outside, and nothing is left.
func TestPodmanRunsTheJobInItsImage(t *testing.T) {
	kernfstest.NeedRoot(t)
	for _, program := range []string{"podman", "conmon", "runc", "newuidmap"} {
		if _, err := exec.LookPath(program); err != nil {
			kernfstest.Elsewhere(t, "no %s: make test", program)
		}
	}
	dir, err := os.MkdirTemp("", "hh")
	must.NoError(t, err)
	c := &containers{node: newNodeIn(t, dir, "[container]\nenabled = true\nengine = 'podman'\n"+
		"program = '"+dir+"/podman'\noptions = ['--runtime', 'runc', '--volume=/usr:/usr:ro']\nbinds = ['$TMPDIR']\n")}
	must.NoError(t, os.Chmod(dir, 0o755))
	c.prepare()
	podman := fmt.Sprintf("#!/bin/sh\nHOME=%s exec podman \"$@\"", c.path("home")) // nobody has no home
	must.NoError(t, os.WriteFile(c.path("podman"), []byte(podman), 0o755), os.Chmod(c.path("podman"), 0o755))
	must.NoError(t, os.WriteFile(c.path("image/inside"), nil, 0o644))
	must.NoError(t, os.Chmod(c.path("image"), 0o755))
	image := c.archive()
	c.serve()
	run := func(script string) result {
		// Beside another job of the same id, TMPDIR is too long a name for podman.
		cmd := c.command("run", "-u", "nobody", "--job", "1."+c.prefix, "-l", "select=1:ncpus=1:mem=1gb", "-l",
			"container="+image, "--report=json", "--", "/bin/sh", "-c", script)
		return c.finish(c.withRanges(cmd))
	}
	r := run(`ls /inside && id -u && echo "$PBS_JOBID" && exit 7`)
	if r.status != 7 || !strings.HasPrefix(r.stdout, "/inside\n65534\n1.") {
		t.Errorf("status %d, stdout %q", r.status, r.stdout)
	}
	if notes := strings.Join(r.report(t).Notes, "; "); !strings.Contains(notes, "image "+image+" by podman") {
		t.Errorf("notes %q", notes)
	}
	if r := run("kill -TERM $$; sleep 10"); r.status != 143 {
		t.Errorf("a program that SIGTERM ended: status %d", r.status)
	}
	c.wantNothing()
}
