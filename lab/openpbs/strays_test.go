//go:build openpbs

package openpbs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A process that has left its job is moved back into it. A process that is none of the job's is
// left alone, and outlives it.
func TestStraysComeBackIntoTheirJobAndOthersStay(t *testing.T) {
	needNodes(t, 2)
	j := qsub(t, "alice", small(nodes[1]), "sleep 1000")
	j.running()
	start := func(node, user, sleep, command string) (pid string) {
		t.Helper()
		as(t, user, node, command+" </dev/null >/dev/null 2>&1")
		eventually(t, "sleep "+sleep+" runs", func() bool {
			pid = strings.TrimSpace(on(t, nodes[1], "pgrep -x -f 'sleep "+sleep+"' || :"))
			return pid != ""
		})
		t.Cleanup(func() { on(t, nodes[1], "kill "+pid+" 2>/dev/null || :") })
		return pid
	}
	taken := start(nodes[1], "alice", "1001", "setsid -f env PBS_JOBID="+j.id+" sleep 1001")
	lost := start(nodes[1], "alice", "1002", "setsid -f env -i sleep 1002")
	left := map[string]string{
		"another user's": start(nodes[1], "bob", "1003", "setsid -f env PBS_JOBID="+j.id+" sleep 1003"),
		"a login's":      start(nodes[0], "alice", "1004", "setsid -f ssh "+nodes[1]+" sleep 1004"),
		"a login's at a terminal": start(nodes[0], "alice", "1005",
			"setsid -f ssh -tt "+nodes[1]+" PBS_JOBID="+j.id+" sleep 1005"),
	}
	inside := func(pid string) bool { return inJob(on(t, nodes[1], "cat /proc/"+pid+"/cgroup"), j.id) }
	noted := func(format, pid string) func() bool {
		return func() bool { return slices.Contains(j.notes(nodes[1]), fmt.Sprintf(format, pid)) }
	}
	eventually(t, "what belongs to the job is in it", func() bool {
		return inside(taken) || noted("adopted pid %s (sleep): environment", taken)() && inside(taken)
	})
	eventually(t, "the report says so", noted("adopted pid %s (sleep): environment", taken))
	eventually(t, "the report tells of what nobody knows", noted(
		"pid %s (sleep) of the job's owner is outside of the job: nothing says what it belongs to", lost))
	j.deleted()
	eventually(t, "what belonged to the job has ended with it", func() bool {
		return on(t, nodes[1], "pgrep -x -f 'sleep 1001' || :") == ""
	})
	for what, pid := range left {
		if on(t, nodes[1], "kill -0 "+pid+" && echo lives || :") == "" {
			t.Errorf("%s process has ended with the job", what)
		}
	}
	if on(t, nodes[1], "kill -0 "+lost+" && echo lives || :") == "" {
		t.Error("the process of which nobody knows whose it is has ended with the job")
	}
}
