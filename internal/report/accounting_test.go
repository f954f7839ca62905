package report

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
)

// accountingRecord is one record of PBS's accounting log as its consumers read it. The reader
// shares no code with the writer.
type accountingRecord struct {
	when   time.Time
	id     string
	keys   []string // in the record's order
	fields map[string]string
}

var (
	accountingHead = regexp.MustCompile(`^(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d);E;([0-9][^;\s]*);(.*)$`)
	isInteger      = regexp.MustCompile(`^-?[0-9]+$`)
	isSize         = regexp.MustCompile(`^[0-9]+([kmgtp]?[bw])?$`)
	isDuration     = regexp.MustCompile(`^[0-9]{2,}:[0-5][0-9]:[0-5][0-9]$`)
)

// readAccounting reads a record by the rules of PBS's administrator's guide. A blank parts two
// fields. A value with blanks is in quotes, double ones unless it has such itself.
func readAccounting(line string) (accountingRecord, error) {
	a := accountingRecord{fields: map[string]string{}}
	head := accountingHead.FindStringSubmatch(line)
	if head == nil {
		return a, fmt.Errorf("no record: %q", line)
	}
	var err error
	if a.when, err = time.Parse("01/02/2006 15:04:05", head[1]); err != nil {
		return a, err
	}
	a.id = head[2]
	for rest := head[3]; rest != ""; {
		key, after, found := strings.Cut(rest, "=")
		if !found || key == "" || strings.ContainsAny(key, " \t\"'") {
			return a, fmt.Errorf("no field: %q", rest)
		}
		var value string
		if after != "" && (after[0] == '"' || after[0] == '\'') {
			end := strings.IndexByte(after[1:], after[0])
			if end < 0 {
				return a, fmt.Errorf("quote is not closed: %q", rest)
			}
			value, rest = after[1:end+1], after[end+2:]
			if rest != "" && rest[0] != ' ' {
				return a, fmt.Errorf("text after a quote: %q", rest)
			}
			rest = strings.TrimPrefix(rest, " ")
		} else {
			value, rest, _ = strings.Cut(after, " ")
		}
		if _, twice := a.fields[key]; twice || value == "" {
			return a, fmt.Errorf("field %q: twice or without a value", key)
		}
		a.keys, a.fields[key] = append(a.keys, key), value
	}
	return a, a.check()
}

// accountingOrder is that of account_jobend; resources are in alphabetical order each.
var accountingOrder = strings.Fields(`user group account project accounting_id jobname queue resvname resvID ctime
	qtime etime start exec_host exec_vnode Resource_List session alt_id end Exit_status resources_used eligible_time
	run_count`)

func (a accountingRecord) check() error {
	place := -1
	last := ""
	for _, key := range a.keys {
		group, _, _ := strings.Cut(key, ".")
		at := slices.Index(accountingOrder, group)
		if at < place || at == place && strings.Compare(key, last) <= 0 {
			return fmt.Errorf("field %q is not in its place", key)
		}
		place, last = at, key
		rule := fieldRule(key)
		if rule != nil && !rule.MatchString(a.fields[key]) {
			return fmt.Errorf("field %s=%s: not of its type", key, a.fields[key])
		}
	}
	return nil
}

// fieldRule returns what a value has to match, nil for text.
func fieldRule(key string) *regexp.Regexp {
	switch _, resource, _ := strings.Cut(key, "."); {
	case slices.Contains(strings.Fields("ctime qtime etime start session end Exit_status run_count"), key):
		return isInteger
	case slices.Contains([]string{"ncpus", "mpiprocs", "nodect", "cpupercent", "ngpus"}, resource):
		return isInteger
	case slices.Contains([]string{"mem", "vmem", "hpmem"}, resource):
		return isSize
	case slices.Contains([]string{"cput", "walltime"}, resource):
		return isDuration
	}
	return nil
}

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
	a, err := readAccounting(strings.TrimSuffix(line, "\n"))
	must.NoError(t, err)
	must.Equal(t, "", `says "no"  twice`, a.fields["Resource_List.note"])
	must.Equal(t, "", strconv.FormatInt(ended.Unix(), 10), a.fields["end"])
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
		a, err := readAccounting(strings.TrimSuffix(line, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		if a.id != "12.srv" || len(a.fields) > 18 {
			t.Errorf("%q", line)
		}
	})
}
