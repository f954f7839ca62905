package main

import (
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/openpbs"
)

// A user has MoM log a line about another user's job, with a host's name spelt otherwise: a stageout
// that has a newline does so. MoM's own line comes right before the epilogue.
func TestForgedUsageInMoMsLogGivesWayToMoMsOwn(t *testing.T) {
	const forged, own = "11/22/2026 17:45:43;0100;pbs_mom;Job;7.srv;", "11/22/2026 17:45:44;0100;pbs_mom;Job;7.srv;"
	const log = forged + "n2.x cput=77:00:00 mem=7777777kb\n" + forged + "N2 cput=77:00:00 mem=7777777kb\n" +
		own + "n1 cput=00:00:01 mem=1kb\n" + own + "n2 cput=00:00:02 mem=2kb\n"
	totals := openpbs.HostTotals([]byte(log), "7.srv", time.Date(2026, 11, 22, 17, 45, 40, 0, time.UTC))
	if got, told := totalOf(totals, "n2"); !told || got.CPUT != 2*time.Second || got.Mem != 2<<10 {
		t.Errorf("got %+v, %v", got, told)
	}
}
