//go:build openpbs

package openpbs_test

import (
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// A job's TMPDIR is in memory on each of its hosts, for what TM starts too. It goes with the job.
func TestPrivateDirectoriesGoWithTheJob(t *testing.T) {
	needNodes(t, 2)
	settings(t, "[private]\ntmp = true\ntmp_size = \"16mb\"", nodes...)
	tasks := shared(t)
	j := qsub(t, "alice", twoHosts, `umask; echo $TMPDIR; stat -f -c %T $TMPDIR; stat -c %a:%U $TMPDIR
head -c 20m /dev/zero >$TMPDIR/x
/opt/pbs/bin/pbsdsh -- /bin/bash -c 'echo $TMPDIR $(stat -f -c %T $TMPDIR) >`+tasks+`/$(hostname)'`)
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
}
