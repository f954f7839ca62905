//go:build openpbs

package openpbs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// fill copies to an image what its programs need: a few commands, Open MPI, and the libraries of
// these and of PBS's commands.
const fill = `set -e; cd %[1]s
programs=$(command -v bash dash id hostname grep touch ls sleep setsid env cat orterun orted)
plugins=$(find /usr/lib/*/openmpi /usr/lib/*/pmix2 /usr/share/openmpi -type f)
cp -L --parents $programs $plugins $(ldd $programs $plugins /opt/pbs/bin/* 2>/dev/null |
	sed -n 's:^.*[[:space:]]\(/[^ ]*\) (0x.*:\1:p' | sed 's:^/lib:/usr/lib:' | grep ^/usr/ | sort -u) .
ln -s dash usr/bin/sh
ln -s orterun usr/bin/mpirun.openmpi
: >usr/bin/hookhost; : >usr/bin/hookhost-remsh`

// withImages has the complex run jobs in images by charliecloud, until the test ends. It returns an
// image, with its own programs and libraries and the file /inside.
func withImages(t *testing.T) string {
	t.Helper()
	if _, err := output("root", nodes[0], "command -v ch-run"); err != nil {
		kernfstest.Elsewhere(t, "no charliecloud: make test-openpbs")
	}
	dir, err := os.MkdirTemp("/srv", "hhimage") // charliecloud has TMPDIR at /tmp, so nothing else can be there
	must.NoError(t, err, os.Chmod(dir, 0o777))
	t.Cleanup(func() { os.RemoveAll(dir) })
	image := filepath.Join(dir, "image")
	for _, dir := range []string{"dev", "proc", "sys", "etc", "tmp", "usr/bin", "opt", "srv", "run/hookhost", "var/tmp",
		"var/spool/pbs/aux", "var/spool/pbs/mom_priv/jobs"} {
		must.NoError(t, os.MkdirAll(filepath.Join(image, dir), 0o755))
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} { // links into /usr
		to, err := os.Readlink("/" + name)
		must.NoError(t, err, os.Symlink(to, filepath.Join(image, name)))
	}
	for _, name := range []string{"inside", "etc/passwd", "etc/group"} {
		must.NoError(t, os.WriteFile(filepath.Join(image, name), nil, 0o644))
	}
	on(t, nodes[0], fmt.Sprintf(fill, image))
	settings(t, "[container]\nenabled = true\nengine = 'charliecloud'\n"+
		"binds = ['/opt', '/etc', '/srv', '/var/tmp', '/usr/bin/hookhost', '/usr/bin/hookhost-remsh', "+
		"'/run/hookhost']\n", nodes...)
	t.Cleanup(func() {
		for _, node := range nodes {
			on(t, nodes[0], "qmgr -c 'unset node "+node+" resources_available.container_engine'")
		}
		on(t, nodes[0], `ids=$(qselect -x -u alice -s F); [ -z "$ids" ] || qdel -x -W force $ids
for r in container container_engine; do
	for i in $(seq 1000); do qmgr -c "delete resource $r" 2>/dev/null && break; sleep 0.1; done
done
! qmgr -c 'list resource' | grep '^Resource container'`)
	})
	on(t, nodes[0], "hookhost openpbs install --freq 5 --container")
	for _, node := range nodes {
		eventually(t, node+" knows the resource", func() bool {
			return on(t, node, "grep ^container "+resourcedef+" || :") != ""
		})
	}
	return image
}

const saysWhere = `[ -e /inside ] && echo "inside as $(id -un) on $(hostname) with $TESTED" || echo outside`

func TestJobRunsInItsImage(t *testing.T) {
	image := withImages(t)
	for _, node := range nodes {
		eventually(t, "the server has the engine of "+node, func() bool {
			return available(t, node, "container_engine") == "charliecloud"
		})
	}
	t.Run("script", func(t *testing.T) {
		j := qsub(t, "alice", "-v TESTED=x -l container="+image+" "+small(nodes[0]), saysWhere+"\nexit 7")
		if a := j.finished(); a.ExitStatus == nil || *a.ExitStatus != 7 {
			t.Errorf("exit status %v", a.ExitStatus)
		}
		must.Equal(t, "output", "inside as alice on node1 with x", j.stdout())
		if notes := strings.Join(j.notes(nodes[0]), "; "); !strings.Contains(notes, "image "+image+" by charliecloud") {
			t.Errorf("notes %q", notes)
		}
	})
	t.Run("no image", func(t *testing.T) {
		j := qsub(t, "alice", small(nodes[0]), saysWhere)
		j.succeeds()
		must.Equal(t, "output", "outside", j.stdout())
	})
	t.Run("array", func(t *testing.T) {
		dir := filepath.Dir(image)
		j := qsub(t, "alice", "-J 1-3 -l container="+image+" "+small(nodes[0]),
			"[ -e /inside ] && touch "+dir+"/done.$PBS_ARRAY_INDEX")
		j.finished()
		if done, _ := filepath.Glob(dir + "/done.*"); len(done) != 3 {
			t.Errorf("done: %v", done)
		}
	})
	t.Run("interactive", func(t *testing.T) {
		_, text := interactive(t, "-l container="+image+" "+small(nodes[0]), `test -t 0 && ls /insid[e]; exit`)
		if !strings.Contains(text, "/inside\r") {
			t.Errorf("the terminal shows %q", text)
		}
	})
	t.Run("killed", func(t *testing.T) {
		j := qsub(t, "alice", "-l container="+image+" "+small(nodes[0]), "sleep 1000 & setsid sleep 1000")
		j.running()
		j.deleted()
		idle(t, "alice")
	})
}

// Each program that PBS's task manager starts is in the image, on every host.
func TestTasksOfAJobRunInItsImage(t *testing.T) {
	needNodes(t, 2)
	image := withImages(t)
	j := qsub(t, "alice", "-l container="+image+" "+twoHosts,
		"/opt/pbs/bin/pbsdsh -- /bin/sh -c '"+saysWhere+"; grep -m1 memory /proc/self/cgroup'")
	j.succeeds()
	text := j.stdout()
	for _, node := range nodes {
		if !strings.Contains(text, "inside as alice on "+node+" with") {
			t.Errorf("%s: %q", node, text)
		}
	}
	if strings.Contains(text, "outside") || strings.Count(text, "/"+j.id) != len(nodes) {
		t.Errorf("tasks outside of the job or its image: %q, %s", text, j.stderr())
	}
}

// The ranks of a job are in the image as well. mpirun and its library are those of the image, and
// start what they need on other hosts by PBS's task manager.
func TestRanksOfAJobRunInItsImage(t *testing.T) {
	needNodes(t, 2)
	image, l := withImages(t), launchers[0]
	program, err := os.ReadFile(l.where(t))
	copied := filepath.Join(filepath.Dir(image), "where")
	must.NoError(t, err, os.WriteFile(copied, program, 0o755))
	j := qsub(t, "alice", "-l container="+image+" "+twoHosts,
		l.command+" sh -c '[ -e /inside ] && [ ! -e /usr/share/doc ] && exec "+copied+"'")
	j.succeeds()
	everywhere(t, j.stdout(), j.id)
}

// A job whose image the owner cannot read is held, and one that names no image is gone. Neither has
// run, mom_logs have the reason, and the node goes on.
func TestImageThatCannotBeReadRejectsTheJob(t *testing.T) {
	image := withImages(t)
	closed := filepath.Join(filepath.Dir(image), "closed")
	must.NoError(t, os.WriteFile(closed, nil, 0o600))
	for name, want := range map[string]string{closed: "permission denied", image + "2": "no such file or directory",
		"--privileged": "want the absolute path of an image"} {
		state := map[bool]string{true: "H", false: "F"}[filepath.IsAbs(name)]
		j := qsub(t, "alice", "-l container="+name+" "+small(nodes[0]), "echo ran")
		j.becomes("is "+state, func(a attributes) bool { return a.State == state })
		log := on(t, nodes[0], "cat "+pbsHome+"/mom_logs/* | grep -F ';"+j.id+";' || :")
		if why := fmt.Sprintf("rejected by 'container': image %q: %s", name, want); !strings.Contains(log, why) {
			t.Errorf("mom_logs have no %q: %s", why, log)
		}
		if state == "H" {
			j.forced()
		}
	}
	qsub(t, "alice", small(nodes[0]), "true").succeeds()
}
