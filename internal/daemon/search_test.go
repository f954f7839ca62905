package daemon

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/ledger"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/report"
)

func TestQuestionForJobsThatRunLeavesTheLedgerAlone(t *testing.T) {
	unreadable := ledger.Open(t.TempDir()) // a directory
	began := time.Now()
	live := []*report.Report{{Job: "1.srv", Start: &began}}
	all := func(int) bool { return true }
	for _, limit := range []int{0, 20} {
		found := 0
		yield := func(json.RawMessage) bool { found++; return true }
		f := report.Filter{States: []string{"running"}, Limit: limit}
		must.NoError(t, FindReports(t.Context(), unreadable, live, f, all, func() {}, yield))
		must.Equal(t, "jobs that run", 1, found)
		f.States = append(f.States, "failed")
		if err := FindReports(t.Context(), unreadable, live, f, all, func() {}, yield); err == nil {
			t.Error("jobs that have failed are found without the ledger")
		}
	}
}
