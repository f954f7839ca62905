package main_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// containerRuntimes start a program in a container, each with the options that its manual asks for
// and none for hookhost's sake. In the shell's commands, "$@" is the program, $DIR is the test's
// directory and $DEVICES are device nodes.
var containerRuntimes = []struct {
	name    string
	needs   []string
	command string
}{
	{"podman with runc", []string{"podman", "conmon", "runc"}, podmanRun + "--runtime runc " + podmanImage},
	{"podman with crun", []string{"podman", "conmon", "crun"}, podmanRun + "--runtime crun " + podmanImage},
	{"charliecloud", []string{"ch-run"}, `ch-run -b /usr:/usr -b "$DIR/out:/out" "$DIR/image" -- "$@"`},
}

const (
	podmanRun   = `podman run --rm --network=host -v /usr:/usr:ro -v "$DIR/out:/out" `
	podmanImage = `$(printf -- '--device %s ' $DEVICES) --rootfs "$DIR/image" "$@"`
)

// atOnce is the number of containers of one job. A guest takes a minute and a half for 20.
var atOnce = map[bool]int{false: 20, true: 4}[os.Getenv("HOOKHOST_TEST_BIN") != ""]

// manyContainers is a job's script. Its containers say in a file each which devices they can open,
// and go on.
const manyContainers = `echo "$$ begun"
for i in $(seq "$COUNT"); do
	container sh /out/program "$i" $DEVICES </dev/null &
done
read line; exit 0`

// programInContainer opens devices, and stays.
const programInContainer = `i=$1; shift; ` + tryOpen + ` >/out/$i.new; mv /out/$i.new /out/$i; sleep 1000; : $i`

// containers is a node on which jobs start containers by a runtime.
type containers struct {
	*node
	devices []string
	runtime string // starts a container
}

// prepare removes what other runtimes have left, and makes the root directory of an image whose
// programs are the host's: /usr has to be mounted.
func (c *containers) prepare() {
	c.t.Helper()
	for _, name := range []string{"home", "out", "image"} {
		c.anew(name)
	}
	for _, name := range []string{"dev", "proc", "sys", "etc", "tmp", "usr", "out", "run"} {
		must.NoError(c.t, os.Mkdir(c.path("image/"+name), 0o777), os.Chmod(c.path("image/"+name), 0o777))
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		to, err := os.Readlink("/" + name)
		must.NoError(c.t, err, os.Symlink(to, c.path("image/"+name)))
	}
	for _, name := range []string{"etc/passwd", "etc/group", "etc/hosts", "etc/resolv.conf"} {
		must.NoError(c.t, os.WriteFile(c.path("image/"+name), nil, 0o666))
	}
	must.NoError(c.t, os.WriteFile(c.path("out/program"), []byte(programInContainer), 0o644),
		os.Chmod(c.path("out/program"), 0o644))
}

// anew makes an empty directory of the owner's.
func (c *containers) anew(name string) {
	c.t.Helper()
	must.NoError(c.t, os.RemoveAll(c.path(name)), os.Mkdir(c.path(name), 0o700),
		os.Chown(c.path(name), ownerUID, ownerUID))
}

// job is a run of the script. Its runtime directory is new, or podman would miss the containers of
// the job before. Beside a v2 tree that offers controllers, crun does not use v1, so the tree seems
// to offer none.
func (c *containers) job(resources, script string) *exec.Cmd {
	c.t.Helper()
	c.anew("xdg")
	cmd := c.command("run", "-u", "nobody", "-l", resources, "--report", "json", "--", "env", "DIR="+c.dir,
		"DEVICES="+strings.Join(c.devices, " "), fmt.Sprint("COUNT=", atOnce), "sh", "-c",
		`export HOME="$DIR/home" XDG_RUNTIME_DIR="$DIR/xdg" USER=nobody
container() { `+c.runtime+"\n}\n"+script)
	const offered = "/sys/fs/cgroup/unified/cgroup.controllers"
	if exists(offered) {
		must.NoError(c.t, os.WriteFile(c.path("none"), nil, 0o644))
		args := append([]string{"unshare", "-m", "sh", "-c", `mount --bind "$0" ` + offered + ` && exec "$@"`,
			c.path("none")}, cmd.Args...)
		unshare := exec.Command(args[0], args[1:]...)
		unshare.Env = cmd.Env
		return unshare
	}
	return cmd
}

// inside is the beginning of the command line of a program in a container.
const inside = "sh /out/program "

// processes returns the processes with the node's directory in their command line, and their
// cgroups.
func (c *containers) processes() map[string]string {
	found := map[string]string{}
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		pid := filepath.Base(filepath.Dir(path))
		line, _ := os.ReadFile(path)
		text := strings.ReplaceAll(string(line), "\x00", " ")
		if strings.Contains(text, c.dir+"/") && !strings.Contains(text, built) || strings.HasPrefix(text, inside) {
			cgroups, _ := os.ReadFile("/proc/" + pid + "/cgroup")
			found[text+pid] = string(cgroups)
		}
	}
	return found
}

// Containers of a job are in its cgroup. They can open its devices and no others, share its memory
// limit, and end with it.
func TestContainersOfAJobAreInTheJob(t *testing.T) {
	kernfstest.NeedRoot(t)
	paths, config := fpgas(t, 2)
	dir, err := os.MkdirTemp("", "hh")
	must.NoError(t, err)
	c := &containers{node: newNodeIn(t, dir, config), devices: paths}
	must.NoError(t, os.Chmod(dir, 0o755))
	c.serve()
	for _, runtime := range containerRuntimes {
		t.Run(runtime.name, func(t *testing.T) {
			defer func(whole testing.TB) { c.t = whole }(c.t)
			c.t = t
			for _, program := range runtime.needs {
				if _, err := exec.LookPath(program); err != nil {
					kernfstest.Elsewhere(t, "no %s: make test", program)
				}
			}
			c.runtime = runtime.command
			c.prepare()
			other := c.start("run", "-l", "ncpus=0,fpga=1", "--report=json", "--", "sh", "-c",
				`echo "$FPGA."; read x; exit 0`)
			other.await(".")
			free := slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return other.output() == p+".\n" })
			job := c.startCommand(c.job("ncpus=1,mem=1gb,fpga=1", manyContainers))
			must.Eventually(t, "all containers run", func() bool {
				list, _ := filepath.Glob(c.path("out/*[0-9]"))
				return len(list) == atOnce
			})
			for i := range atOnce {
				text, err := os.ReadFile(c.path(fmt.Sprint("out/", i+1)))
				must.NoError(t, err)
				must.Equal(t, "devices that a container opens", free, granted(t, string(text), paths...))
			}
			c.wantInside(job)
			job.end(t)
			other.end(t)
			c.wantNothing()
			r := loggedKill(func() result {
				return c.finish(c.job("ncpus=1,mem=300mb", "container python3 -c 'x=bytearray(600<<20)'"))
			})
			if !strings.Contains(r.stderr, "Cgroup mem limit exceeded: Killed process ") ||
				!strings.Contains(r.stderr, "(python3)") {
				t.Errorf("status %d; stderr does not name the limit and the program: %q", r.status, r.stderr)
			}
			c.wantNothing()
		})
	}
}

// wantInside checks that every process of the containers is in the same cgroups as their job's
// shell.
func (c *containers) wantInside(job *background) {
	c.t.Helper()
	shell, _, _ := strings.Cut(job.output(), " ")
	want, err := os.ReadFile("/proc/" + shell + "/cgroup")
	must.NoError(c.t, err)
	if !strings.Contains(string(want), c.prefix) {
		c.t.Errorf("the job is in %q", want)
	}
	found, programs := c.processes(), 0
	for process, cgroups := range found {
		if strings.HasPrefix(process, inside) {
			programs++
		}
		if cgroups != string(want) {
			c.t.Errorf("%s is in %q, the job in %q", process, cgroups, want)
		}
	}
	if programs < atOnce {
		c.t.Errorf("%d programs in containers of %q", programs, slices.Collect(maps.Keys(found)))
	}
}

// wantNothing checks that no process and no mount of a container is left.
func (c *containers) wantNothing() {
	c.t.Helper()
	if left := slices.Collect(maps.Keys(c.processes())); len(left) > 0 {
		c.t.Errorf("left: %q", left)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	must.NoError(c.t, err)
	if strings.Contains(string(mounts), c.dir) {
		c.t.Errorf("mounts left:\n%s", mounts)
	}
}
