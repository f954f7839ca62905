package openpbs

import (
	"fmt"
	"strings"
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

// FuzzParseTotals reads a log whose lines a user has had MoM write, but for the last one.
func FuzzParseTotals(f *testing.F) {
	f.Add("11/22/2026 17:45:44;0100;pbs_mom;Job;7.srv;n1 cput=00:00:00 mem=0kb\n", uint32(5), uint32(9))
	f.Add("11/22/2026 17:45:44.5;0100;pbs_mom;Job;7.srv;n1.cluster cput=99999999999:00:00 mem=-1kb\nx", uint32(0),
		uint32(1))
	since := time.Date(2026, 11, 22, 17, 45, 40, 0, time.UTC)
	f.Fuzz(func(t *testing.T, log string, seconds, kb uint32) {
		for _, total := range parseTotals([]byte(log), "7.srv", since) {
			if total.Host == "" || strings.ContainsAny(total.Host, " \n") || total.CPUT < 0 || total.Mem < 0 {
				t.Errorf("%q: %+v", log, total)
			}
		}
		own := fmt.Sprintf("11/22/2026 17:45:45;0100;pbs_mom;Job;7.srv;n1 cput=%02d:%02d:%02d mem=%dkb\n", seconds/3600,
			seconds/60%60, seconds%60, kb)
		totals := parseTotals([]byte(log+"\n"+own), "7.srv", since)
		if got, told := totals.Of("n1"); !told || got.CPUT != time.Duration(seconds)*time.Second ||
			int64(got.Mem) != int64(kb)<<10 {
			t.Errorf("%q and %q: %+v, %v", log, own, got, told)
		}
	})
}

// FuzzParseResourcedef reads the custom resources of a server. A line of one adds that one.
func FuzzParseResourcedef(f *testing.F) {
	f.Add("ngpus type=long flag=hn\n# x\n\ndiag_messages type=string\n", "foo")
	f.Fuzz(func(t *testing.T, text, name string) {
		custom := ParseResourcedef([]byte(text))
		for known := range custom {
			if known == "" || len(strings.Fields(known)) != 1 || known[0] == '#' {
				t.Errorf("%q: %q", text, known)
			}
		}
		if fields := strings.Fields(name); len(fields) == 1 && fields[0] == name && name[0] != '#' &&
			!ParseResourcedef([]byte(text+"\n"+name+" type=long\n")).Knows(name) {
			t.Errorf("%q: %q is not known", text, name)
		}
	})
}
