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
