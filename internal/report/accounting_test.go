package report

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/report/reporttest"
)

func accountingOf(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	must.NoError(t, r.WriteAccounting(&b))
	return b.String()
}

func TestAccountingRecordHasWhatPBSsOwnHas(t *testing.T) {
	r := fromRecord(record(func(rec *jobstate.Record) {
		j := rec.Job
		j.ID, j.Project, j.Account, j.SessionID, j.RunCount = "12[3].srv", "two words", "acc", 4711, 1
		j.ExecHost2, j.ExecVnode = "n1.cluster:15002/0*2+n2:15002/1", "(n1:ncpus=2:mem=65536kb)+(n2:ncpus=1)"
		j.ResourceList["select"], j.ResourceList["note"] = "1:ncpus=2", `says "no"  twice`
		rec.ExitStatus = ptr(-29)
	}), ended)
	line := accountingOf(t, r)
	must.Equal(t, "", `03/01/2026 12:10:03;E;12[3].srv;user=alice account="acc" project="two words" jobname=train `+
		`queue=workq start=1772362800 exec_host=n1/0*2+n2/1 exec_vnode=(n1:ncpus=2:mem=65536kb)+(n2:ncpus=1) `+
		`Resource_List.mem=64mb Resource_List.ncpus=2 Resource_List.note='says "no"  twice' `+
		`Resource_List.select=1:ncpus=2 Resource_List.walltime=01:00:00 session=4711 end=1772363403 Exit_status=-29 `+
		`resources_used.cpupercent=180 resources_used.cput=00:18:06 resources_used.mem=49152kb `+
		`resources_used.ncpus=2 resources_used.vmem=61440kb resources_used.walltime=00:10:03 run_count=1`+"\n", line)
	a, err := reporttest.ReadAccounting(strings.TrimSuffix(line, "\n"))
	must.NoError(t, err)
	must.Equal(t, "", `says "no"  twice`, a.Fields["Resource_List.note"])
	must.Equal(t, "", strconv.FormatInt(ended.Unix(), 10), a.Fields["end"])
}

func TestAccountingHasEachEndedJobOnceOnItsFirstHost(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*jobstate.Record)
		end    time.Time
		want   int
	}{
		{"ended", nil, ended, 1},
		{"live", nil, time.Time{}, 0},
		{"on a sister host", func(r *jobstate.Record) { r.Job.MotherSuperior = false }, ended, 0},
		{"not started", func(r *jobstate.Record) { r.Launched = jobstate.Moment{} }, ended, 0},
	} {
		if got := strings.Count(accountingOf(t, fromRecord(record(tt.change), tt.end)), "\n"); got != tt.want {
			t.Errorf("%s: %d records, want %d", tt.name, got, tt.want)
		}
	}
	if text := accountingOf(t, &Report{Job: "1", End: &ended}); !strings.HasSuffix(text, ";E;1;end=1772363403\n") {
		t.Errorf("report without a job: %q", text)
	}
}

// FuzzAccounting: no text of a user's ends its field or begins another record.
func FuzzAccounting(f *testing.F) {
	for _, s := range []string{"train", "a b", "x\n03/01/2026 12:10:03;E;1;user=root", `"`, "'", `' "`, `a'b "c`,
		"\x00", "=", ""} {
		f.Add(s, "project "+s, "12"+s)
	}
	f.Fuzz(func(t *testing.T, name, value, resource string) {
		rec := record(func(r *jobstate.Record) {
			r.Job.Name, r.Job.Owner.User, r.Job.Project, r.Job.Account, r.Job.Queue = name, name, value, value, name
			r.Job.ResourceList = hostapi.Resources{"x" + resource: value}
		})
		line := accountingOf(t, fromRecord(rec, ended))
		if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
			t.Fatalf("%q", line)
		}
		a, err := reporttest.ReadAccounting(strings.TrimSuffix(line, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		if a.ID != "12.srv" || len(a.Fields) > 18 {
			t.Errorf("%q", line)
		}
	})
}
