package doctor

import (
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/delivery"
)

// examineDelivery reports whether reports of finished jobs can be delivered as [reports] says.
func examineDelivery(r config.Reports) []Finding {
	var findings []Finding
	for _, t := range []struct {
		to, what string
		check    func(string) error
	}{
		{r.Directory, "directory of reports", delivery.CheckDirectory},
		{r.Command, "command for reports", delivery.CheckCommand},
	} {
		if t.to == "" {
			continue
		}
		if err := t.check(t.to); err != nil {
			findings = append(findings, degraded(t.what, err.Error()+": no report is delivered",
				"correct it, or [reports] of the configuration: docs/reports.md"))
		} else {
			findings = append(findings, ok(t.what, t.to))
		}
	}
	return findings
}
