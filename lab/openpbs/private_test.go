//go:build openpbs

package openpbs_test

import (
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// A job's TMPDIR is in memory on each of its hosts, for what TM starts too, and no launch goes
// without it. It goes with the job, as does what the job left in /dev/shm and in System V IPC.
func TestPrivateDirectoriesGoWithTheJob(t *testing.T) {
	needNodes(t, 2)
	settings(t, `[private]
tmp = true
tmp_size = "16mb"
clean_dirs = ["/dev/shm"]
clean_ipc = true`, nodes...)
	host := nodes[len(nodes)-1]
	as(t, "bob", host, "echo >/dev/shm/bobs; ipcmk -M 4096 -Q -S 1")
	t.Cleanup(func() { on(t, host, "rm -f /dev/shm/bobs; ipcrm -a") })
	tasks := shared(t)
	j := qsub(t, "alice", twoHosts, `umask; echo $TMPDIR; stat -f -c %T $TMPDIR; stat -c %a:%U $TMPDIR
head -c 20m /dev/zero >$TMPDIR/x
echo >/dev/shm/left; mkdir /dev/shm/leftdir; ipcmk -M 4096 -Q -S 1 >/dev/null
/opt/pbs/bin/pbsdsh -- /bin/bash -c 'echo $TMPDIR $(stat -f -c %T $TMPDIR) >`+tasks+`/$(hostname); echo >/dev/shm/task; ipcmk -Q >/dev/null'`)
	j.succeeds()
	defer func() {
		if t.Failed() {
			t.Log(j.stderr())
		}
	}()
	dir := "/run/hookhost/tmp/" + j.id
	must.Equal(t, "what the job prints", []string{"0077", dir, "tmpfs", "700:alice"}, strings.Fields(j.stdout()))
	for _, node := range nodes {
		must.Equal(t, "what its task on "+node+" prints", dir+" tmpfs", on(t, node, "cat "+tasks+"/"+node))
	}
	if !strings.Contains(j.stderr(), "No space left on device") {
		t.Errorf("standard error: %s", j.stderr())
	}
	j.ended()
	for _, node := range nodes {
		eventually(t, "no TMPDIR is left on "+node, func() bool {
			return on(t, node, "ls -A /run/hookhost/tmp; grep hookhost/tmp /proc/mounts || :") == ""
		})
	}
	// On the first node, a process of alice's qsub is left for a minute.
	eventually(t, "nothing else is left on "+host, func() bool {
		left := on(t, host, "ls -A /run/hookhost/users; find /dev/shm -user alice; ipcs -m -q -s | grep alice || :")
		return left == ""
	})
	if left := on(t, host, "find /dev/shm -user bob; ipcs -m -q -s | grep -c bob"); left != "/dev/shm/bobs\n3" {
		t.Errorf("of another user is left: %q", left)
	}
}

// Directories of [private] are a job's alone on each of its hosts, for what TM starts, too, and in
// a terminal. -l shm_size is the size of /dev/shm. Programs with set-user-id, as qstat needs, work.
// Nothing is left.
func TestJobsDoNotShareDirectories(t *testing.T) {
	needNodes(t, 2)
	createResource(t, "shm_size", "type=size,flag=m")
	for _, node := range nodes {
		on(t, node, "mkdir -p /run/base; touch /var/tmp/the-nodes")
		t.Cleanup(func() { on(t, node, "rm -rf /run/base /var/tmp/the-nodes") })
	}
	settings(t, `[private]
dirs = [{path = "/dev/shm", size = "16mb"}, {path = "/var/tmp", base = "/run/base"}]`, nodes...)
	tasks := shared(t)
	const size = "$(df -k --output=size /dev/shm | tail -1) $(ls /var/tmp)" // qstat leaves a file with a dot
	wait, release := hold(t)
	j := qsub(t, "alice", twoHosts+"-l shm_size=64mb", `echo alices >/var/tmp/alices
echo $TMPDIR `+size+`
head -c 65m /dev/zero >/dev/shm/x || echo full
/opt/pbs/bin/qstat $PBS_JOBID >/dev/null && echo qstat
/opt/pbs/bin/pbsdsh -- /bin/bash -c 'echo `+size+` >`+tasks+`/$(hostname); echo >/var/tmp/task'
echo >`+tasks+`/ready
`+wait)
	eventually(t, "alice's job waits", func() bool {
		return on(t, nodes[0], "ls "+tasks+" | grep ready || :") != ""
	})
	qsub(t, "bob", small(nodes[0]), "echo "+size+" >"+tasks+"/bob").succeeds()
	must.Equal(t, "what bob's job prints", "16384", on(t, nodes[0], "cat "+tasks+"/bob"))
	release()
	j.succeeds()
	defer func() {
		if t.Failed() {
			t.Log(j.stderr())
		}
	}()
	must.Equal(t, "what the job prints", strings.Fields("/var/tmp 65536 alices full qstat"), strings.Fields(j.stdout()))
	must.Equal(t, "what its task beside it prints", "65536 alices", on(t, nodes[0], "cat "+tasks+"/"+nodes[0]))
	must.Equal(t, "what its task elsewhere prints", "65536", on(t, nodes[0], "cat "+tasks+"/"+nodes[1]))
	if !strings.Contains(j.stderr(), "No space left on device") {
		t.Errorf("standard error: %s", j.stderr())
	}
	j.atLeast(t, 63<<20, 0)
	j.ended()

	terminal, screen := interactive(t, small(nodes[0])+" -l shm_size=8mb",
		"echo $(tty) $(df -k --output=size /dev/shm | tail -1) kb; exit")
	if !strings.Contains(screen, "/dev/pts/") || !strings.Contains(screen, "8192 kb") {
		t.Errorf("a terminal shows %q", screen)
	}
	terminal.ended()
	for _, node := range nodes {
		eventually(t, "nothing is left on "+node, func() bool {
			return on(t, node, `ls -A /run/hookhost/ns /run/base/pbs_jobs
grep hookhost/ns/ /proc/mounts; ls /var/tmp | grep -x -e alices -e task || :`) == "/run/base/pbs_jobs:\n\n/run/hookhost/ns:"
		})
	}
}
