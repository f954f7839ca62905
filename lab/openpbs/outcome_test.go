//go:build openpbs

package openpbs_test

import (
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

// The outcome is that of pbs_mom's Exit_status and events.
func TestReportHasTheOutcomeThatMoMBringsAbout(t *testing.T) {
	momConfig(t, nodes[0], "")
	outcome := func(j *job) string {
		t.Helper()
		j.becomes("is ended", func(a attributes) bool { return a.State == "F" })
		j.gone()
		return strings.TrimSpace(on(t, nodes[0], "hookhost report --json "+j.id+
			` | python3 -c 'import json, sys; o = json.load(sys.stdin)["outcome"]; print(o["state"], o["words"], sep=": ")'`))
	}
	late := qsub(t, "alice", small(nodes[0])+" -l walltime=5", "sleep 300")
	failed := qsub(t, "alice", small(nodes[0]), "exit 3")
	must.Equal(t, "failed", "failed: failed with status 3", outcome(failed))
	must.Equal(t, "out of time", "timeout: walltime exceeded", outcome(late))
	greedy := qsub(t, "alice", small(nodes[0]), "exec python3 -c 'bytearray(300 << 20)'")
	must.Equal(t, "out of memory", "oom: out of memory", outcome(greedy))
	deleted := qsub(t, "alice", small(nodes[0]), "sleep 300")
	deleted.becomes("runs", func(a attributes) bool { return a.State == "R" && a.Substate == 42 })
	on(t, nodes[0], "qdel "+deleted.id)
	must.Equal(t, "deleted", "cancelled: cancelled", outcome(deleted))
}
