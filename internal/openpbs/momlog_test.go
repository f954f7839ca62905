package openpbs

import (
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/must"
)

// OpenPBS 23.06.06 wrote such lines of a job on two nodes.
func TestHostTotalsAreWhatMoMLoggedForThisRun(t *testing.T) {
	const log = `11/22/2026 17:40:00;0100;pbs_mom;Job;7.srv;n2 cput=09:00:00 mem=9kb
11/22/2026 17:45:43;0080;pbs_mom;Job;7.srv;task 00000001 terminated
11/22/2026 17:45:43;0100;pbs_mom;Job;7.srv;task 00000001 cput=00:00:03
11/22/2026 17:45:44;0100;pbs_mom;Job;7.srv;n1 cput=00:00:00 mem=0kb
11/22/2026 17:45:44.123456;0100;pbs_mom;Job;7.srv;n2.cluster cput=01:00:04 mem=105208kb
11/22/2026 17:45:44;0100;pbs_mom;Job;7.srv;n3 cput=-1 mem=1kb
11/22/2026 17:45:44;0100;pbs_mom;Job;7.srv;n4 cput=00:00:01 mem=99999999999999999999kb
11/22/2026 17:45:44;0100;pbs_mom;Job;7.srv;n5 cput=00:00:01 mem=1kb and more
11/22/2026 17:45:44;0100;pbs_mom;Job;77.srv;n6 cput=00:00:01 mem=1kb
11/22/2026 17:45:44;0001;pbs_mom;Svr;7.srv;n7 cput=00:00:01 mem=1kb
a name;Job;7.srv;n8 cput=00:00:01 mem=1kb
`
	begun := time.Date(2026, 11, 22, 17, 45, 44, 900e6, time.UTC)
	want := Totals{{Host: "n1"}, {"n2.cluster", time.Hour + 4*time.Second, 105208 << 10}}
	must.Equal(t, "", want, parseTotals([]byte(log), "7.srv", begun))
}

// A user has MoM log a line about another user's job, with a host's name spelt otherwise: a
// stageout that has a newline does so. MoM's own line comes right before the epilogue.
func TestForgedUsageInMoMsLogGivesWayToMoMsOwn(t *testing.T) {
	const forged, own = "11/22/2026 17:45:43;0100;pbs_mom;Job;7.srv;", "11/22/2026 17:45:44;0100;pbs_mom;Job;7.srv;"
	const log = forged + "n2.x cput=77:00:00 mem=7777777kb\n" + forged + "N2 cput=77:00:00 mem=7777777kb\n" +
		own + "n1 cput=00:00:01 mem=1kb\n" + own + "n2 cput=00:00:02 mem=2kb\n"
	totals := parseTotals([]byte(log), "7.srv", time.Date(2026, 11, 22, 17, 45, 40, 0, time.UTC))
	if got, told := totals.Of("n2"); !told || got.CPUT != 2*time.Second || got.Mem != 2<<10 {
		t.Errorf("got %+v, %v", got, told)
	}
}
