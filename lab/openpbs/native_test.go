//go:build openpbs

package openpbs_test

import (
	"strings"
	"testing"
)

// The stand-in answers for hookhost's hook and becomes PBS's own pbs_python for others. An upgrade
// of PBS takes its place away, and no job notices.
func TestStandInAnswersAndGivesItsPlaceBack(t *testing.T) {
	needNodes(t, 2)
	const bin = `. /etc/pbs.conf; cd "$PBS_EXEC/bin"; `
	node := nodes[1]
	sum := func(name string) string { return strings.Fields(on(t, node, bin+"sha256sum "+name))[0] }
	pbsOwn := sum("pbs_python")
	t.Cleanup(func() { output("root", node, "hookhost openpbs uninstall --native") })
	confined := func(what string) {
		t.Helper()
		wait, release := hold(t)
		j := qsub(t, "alice", small(node), "cat /proc/self/cgroup; "+wait)
		j.running()
		if len(j.cgroups(node)) == 0 {
			t.Errorf("%s: job %s has no cgroup", what, j.id)
		}
		release()
		j.succeeds()
		j.gone()
	}
	on(t, node, "hookhost openpbs install --native")
	if sum("pbs_python") == pbsOwn || sum("pbs_python.openpbs") != pbsOwn {
		t.Error("the stand-in has not the place of pbs_python, with PBS's own beside it")
	}
	confined("with the stand-in")
	if out := on(t, node, bin+`echo 'print("PBS" + "s own")' >/run/own.py; ./pbs_python /run/own.py`); out != "PBSs own" {
		t.Errorf("a script of people got %q of pbs_python", out)
	}
	on(t, node, bin+"cp -p pbs_python.openpbs new; mv new pbs_python") // as a package does
	out, _ := output("root", node, "hookhost doctor")
	if !strings.Contains(out, "PBS was upgraded: the stand-in") {
		t.Errorf("doctor after an upgrade of PBS:\n%s", out)
	}
	confined("after an upgrade of PBS")
	on(t, node, "hookhost openpbs install --native")
	on(t, node, "hookhost openpbs uninstall --native")
	if left := on(t, node, bin+"ls | grep pbs_python"); left != "pbs_python" || sum("pbs_python") != pbsOwn {
		t.Errorf("uninstall left %q", left)
	}
	confined("with PBS's own")
}
