package main_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// engine is a stand-in for charliecloud: it notes its user and its arguments, and execs what
// follows "--".
const engine = `#!/bin/sh
id -u >>%[1]s/users
for a; do echo "$a"; done >%[1]s/args
while [ "$1" != -- ]; do INSIDE=$1; shift; done
shift
export INSIDE
exec "$@"
`

// needEngine gives a node an engine, and an image that everybody can read. It returns the image.
func needEngine(t *testing.T) (n *node, image string) {
	t.Helper()
	kernfstest.NeedRoot(t)
	dir, err := os.MkdirTemp("", "hh")
	must.NoError(t, err)
	n = newNodeIn(t, dir, fmt.Sprintf("[container]\nenabled = true\nengine = 'charliecloud'\nprogram = '%s/engine'\n"+
		"options = ['--site']\nbinds = ['/data:/mnt', '$TMPDIR', '$NONE']\n", dir))
	image = n.path("x.sqfs")
	must.NoError(t, os.Mkdir(n.path("out"), 0o777), os.WriteFile(image, nil, 0o644),
		os.WriteFile(n.path("engine"), fmt.Appendf(nil, engine, n.path("out")), 0o755))
	must.NoError(t, os.Chmod(dir, 0o755), os.Chmod(n.path("out"), 0o777), os.Chmod(image, 0o644),
		os.Chmod(n.path("engine"), 0o755))
	n.serve()
	return n, image
}

// A job that names an image runs in it by the node's engine, which execs: environment, exit status
// and signals are the program's own. The report names both.
func TestContainerRunsTheJob(t *testing.T) {
	n, image := needEngine(t)
	run := func(more ...string) result {
		args := []string{"run", "-u", "nobody", "-l", "select=1:ncpus=1:mem=64mb", "--report=json"}
		return n.hookhost(append(args, more...)...)
	}
	r := run("-l", "container="+image, "--", "/bin/sh", "-c", `echo "$INSIDE" "$(id -u)" "$PBS_JOBID"; exit 7`)
	if want := image + " 65534 "; r.status != 7 || !strings.HasPrefix(r.stdout, want) {
		t.Errorf("status %d, stdout %q, want %q", r.status, r.stdout, want)
	}
	if notes := strings.Join(r.report(t).Notes, "; "); !strings.Contains(notes, "image "+image+" by charliecloud") {
		t.Errorf("notes %q", notes)
	}
	args, err := os.ReadFile(n.path("out/args"))
	must.NoError(t, err)
	wd, err := os.Getwd()
	must.NoError(t, err)
	head := "--bind=/data:/mnt\n--bind=" + n.path("run/aux") + ":" + n.path("run/aux") + "\n--cd=" + wd +
		"\n--site\n" + image + "\n--\n/bin/sh\n-c\n"
	if !strings.HasPrefix(string(args), head) {
		t.Errorf("the engine got %q, want %q", args, head)
	}
	users, err := os.ReadFile(n.path("out/users"))
	must.NoError(t, err)
	must.Equal(t, "users who have started the engine", "65534\n", string(users))
	if r := run("-l", "container="+image, "--", "/bin/sh", "-c", "kill -TERM $$"); r.status != 143 {
		t.Errorf("a program that SIGTERM ended: status %d", r.status)
	}
	if r := run("--", "/bin/sh", "-c", `echo "${INSIDE-outside}"`); r.status != 0 || r.stdout != "outside\n" {
		t.Errorf("a job without an image: status %d, stdout %q", r.status, r.stdout)
	}
}

// A job is rejected in one line, before anything of it runs, if its owner cannot read the image.
// Without [container] nobody can ask for an image.
func TestContainerRejectsTheJob(t *testing.T) {
	n, image := needEngine(t)
	closed := n.path("closed.sqfs")
	must.NoError(t, os.WriteFile(closed, nil, 0o600), os.Symlink(closed, n.path("link")))
	run := func(image string) result {
		return n.hookhost("run", "-u", "nobody", "-l", "container="+image, "--", "/bin/echo", "ran")
	}
	for image, want := range map[string]string{
		n.path("none"):           "no such file or directory",
		closed:                   "permission denied",
		n.path("link"):           "permission denied",
		"/dev/null":              "neither a file nor a directory",
		"x.sqfs":                 "want the absolute path of an image",
		"--privileged":           "want the absolute path of an image",
		"docker://x":             "charliecloud runs a directory or a SquashFS file",
		"docker://-v":            "want docker://NAME",
		image + "/inner":         "not a directory",
		"docker://al:secret@x/y": "give credentials to the engine's login command",
	} {
		r := run(image)
		line := ""
		for l := range strings.Lines(r.stderr) {
			if strings.Contains(l, "rejected by 'container'") {
				line += l
			}
		}
		if r.status != 125 || r.stdout != "" || !strings.Contains(line, want) || strings.Count(line, "\n") != 1 {
			t.Errorf("image %q: status %d, stdout %q, %q, want %q", image, r.status, r.stdout, line, want)
		}
		if strings.Contains(line, "secret") {
			t.Errorf("image %q: the message repeats the password: %q", image, line)
		}
	}
	must.NoError(t, os.Remove(n.path("engine")))
	missing := "container engine " + n.path("engine") + ": no such file"
	if r := run(image); r.status != 125 || !strings.Contains(r.stderr, missing) {
		t.Errorf("without an engine: %d, %q", r.status, r.stderr)
	}
	must.NoError(t, os.WriteFile(n.path("hookhost.toml"), []byte("[cgroup]\nprefix = \""+n.prefix+"\"\n"), 0o600))
	if r := run(image); r.status != 2 || !strings.Contains(r.stderr, "Unknown resource: container") {
		t.Errorf("without [container]: %d, %q", r.status, r.stderr)
	}
	if exists(n.path("out/args")) {
		t.Error("the engine was started")
	}
}

// podman has its own runtime directory in each job, although the user has one for all jobs, and
// must not find the user's systemd.
func TestContainerEngineHasARuntimeDirectoryInEachJob(t *testing.T) {
	kernfstest.NeedRoot(t)
	dir, err := os.MkdirTemp("", "hh")
	must.NoError(t, err)
	n := newNodeIn(t, dir, fmt.Sprintf("[private]\nruntime_dir = true\n"+
		"[container]\nenabled = true\nengine = 'podman'\nprogram = '%s/engine'\n", dir))
	must.NoError(t, os.WriteFile(n.path("engine"), []byte("#!/bin/sh\n"+
		`[ "$XDG_RUNTIME_DIR" = "$TMPDIR" ] && echo "in TMPDIR, ${DBUS_SESSION_BUS_ADDRESS-no bus}"`), 0o755))
	must.NoError(t, os.Chmod(dir, 0o755), os.Chmod(n.path("engine"), 0o755))
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/65534/bus")
	n.serve()
	r := n.hookhost("run", "-u", "nobody", "-l", "ncpus=1", "-l", "container=docker://x", "--report=none", "--", "true")
	if r.status != 0 || r.stdout != "in TMPDIR, no bus\n" {
		t.Errorf("status %d, stdout %q, stderr %q", r.status, r.stdout, r.stderr)
	}
	r = n.hookhost("run", "-u", "nobody", "-l", "ncpus=1", "--report=none", "--", "sh", "-c", "echo $XDG_RUNTIME_DIR")
	if want := n.path("run/runtime/65534\n"); r.stdout != want {
		t.Errorf("without an image: stdout %q, want %q", r.stdout, want)
	}
}
