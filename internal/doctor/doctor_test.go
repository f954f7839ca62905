package doctor

import (
	"testing"

	"github.com/hookhost/hookhost/internal/must"
)

func TestProblemsComeFirstAndAreCounted(t *testing.T) {
	findings := []Finding{
		ok("a", ""), degraded("b", "", ""), unknown("c"), ok("d", ""), impossible("e", "", ""), blocking("f", "", ""),
		degraded("g", "", ""),
	}
	order := ""
	for _, f := range ByProblem(findings) {
		order += f.What
	}
	must.Equal(t, "order", "febgcad", order)
	must.Equal(t, "summary", "7 checks: 1 blocking a configured hook, 1 impossible, 2 degraded, 1 unknown, 2 ok.",
		Summary(findings))
	must.Equal(t, "without problems", "All 2 checks are ok.", Summary([]Finding{ok("a", ""), ok("d", "")}))
}
