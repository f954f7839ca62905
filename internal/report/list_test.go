package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
)

// casesInOrder are the reports of the cases by their job ids, oldest first, and of a job that runs.
func casesInOrder() []*Report {
	var reports []*Report
	for i, name := range []string{"steady", "leaking", "bursty", "imbalanced", "idle"} {
		r := fromRecord(cases[name], cases[name].Ended.Wall)
		end := r.End.Add(time.Duration(i) * time.Minute)
		r.End = &end
		reports = append(reports, r)
	}
	live := fromRecord(caseRecord("106.srv", "a name that is so long that the table would be too wide",
		func(r *jobstate.Record) { r.Ended, r.ExitStatus = jobstate.Moment{}, nil }), time.Time{})
	return append(reports, live)
}

func writtenBy(t *testing.T, f Format, reports []*Report) string {
	t.Helper()
	var b bytes.Buffer
	must.NoError(t, f(&b, slices.Values(reports)))
	return b.String()
}

func TestTableIsAsTheGoldenFile(t *testing.T) {
	now := begun.Add(5 * time.Hour)
	table := writtenBy(t, List{Width: 80}.Table(now), casesInOrder())
	golden(t, "table.txt", []byte(table))
	for line := range strings.Lines(table) {
		if n := utf8.RuneCountInString(line) - 1; n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if text := writtenBy(t, List{}.Table(now), casesInOrder()); !strings.Contains(text, "would be too wide") {
		t.Errorf("a table for no terminal cuts names:\n%s", text)
	}
	if text := writtenBy(t, List{}.Table(now), nil); text != "no jobs\n" {
		t.Errorf("a table of nothing: %q", text)
	}
	bill := &Report{Name: "bill", Hosts: map[string]*hostapi.HostUsage{"n1": {EnergyJoules: ptr(123456789012.5)}}}
	text := writtenBy(t, List{Columns: []string{"name", "energy_joules"}, Width: 12}.Table(now), []*Report{bill})
	if !strings.Contains(text, " 123456789012.5\n") {
		t.Errorf("a number is cut:\n%s", text)
	}
	later := writtenBy(t, List{Columns: []string{"job", "end"}}.Table(now.AddDate(0, 0, 3)), casesInOrder()[:1])
	must.Equal(t, "", "JOB      END\n101.srv  03-01 13:00\n", later)
	later = writtenBy(t, List{Columns: []string{"end"}}.Table(now.AddDate(1, 0, 0)), casesInOrder()[:1])
	must.Equal(t, "", "END\n2026-03-01\n", later)
}

// jobsOf returns the first column of a table or csv without its head.
func jobsOf(text string) (jobs []string) {
	for line := range strings.Lines(text) {
		job, _, _ := strings.Cut(strings.TrimSpace(line), ".")
		jobs = append(jobs, job)
	}
	return jobs[1:]
}

func TestListsAreSortedAndCut(t *testing.T) {
	for sort, want := range map[string]string{
		"":               "[106 105 104 103 102 101]",
		"job":            "[101 102 103 104 105 106]",
		"-job":           "[106 105 104 103 102 101]",
		"end":            "[105 104 103 102 101 106]", // what is not known comes last
		"-end":           "[101 102 103 104 105 106]",
		"cpu_efficiency": "[101 102 104 103 105 106]",
		"exit_status":    "[102 101 103 104 105 106]",
		"gpus":           "[101 102 103 104 105 106]",
	} {
		table := writtenBy(t, List{Sort: sort, Columns: []string{"job"}}.Table(begun), casesInOrder())
		must.Equal(t, sort, want, fmt.Sprint(jobsOf(table)))
		cut := writtenBy(t, List{Sort: sort, Columns: []string{"job"}, Limit: 2}.Table(begun), casesInOrder())
		end := "2 of 6 jobs: --limit 0 shows all\n"
		if sort == "" {
			end = "the newest 2: --limit 0 shows all\n"
		}
		cut, rest, more := strings.Cut(cut, end)
		must.Equal(t, sort, strings.Join(strings.Fields(want)[:2], " ")+"]", fmt.Sprint(jobsOf(cut)))
		if !more || rest != "" {
			t.Errorf("%s: it is not told that there are more: %s", sort, rest)
		}
		if sort != "" {
			text := writtenBy(t, List{Sort: sort, Columns: []string{"job"}}.CSV(), casesInOrder())
			must.Equal(t, sort, want, fmt.Sprint(jobsOf(text)))
		}
	}
	all := writtenBy(t, List{Columns: []string{"job"}, Limit: math.MaxInt}.Table(begun), casesInOrder())
	must.Equal(t, "a limit that is none", "[106 105 104 103 102 101]", fmt.Sprint(jobsOf(all)))
	text := writtenBy(t, List{Columns: []string{"job"}}.CSV(), casesInOrder())
	must.Equal(t, "csv as it comes", "[101 102 103 104 105 106]", fmt.Sprint(jobsOf(text)))
}

func TestColumnsAreNamedAsInCSV(t *testing.T) {
	l := List{Columns: []string{"oom_kills", "job", "state"}}
	lines, err := csv.NewReader(strings.NewReader(writtenBy(t, l.CSV(), casesInOrder()[1:2]))).ReadAll()
	must.NoError(t, err)
	must.Equal(t, "", [][]string{{"oom_kills", "job", "state"}, {"1", "102.srv", "oom"}}, lines)
	for _, tt := range []struct {
		bad  List
		want string
	}{
		{List{Columns: []string{"job", "MEM"}}, "did you mean mem_bytes?"}, {List{Sort: "size"}, "walltime_seconds"},
		{List{Sort: "--job"}, "did you mean job?"},
	} {
		if err := tt.bad.Check(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %s", tt.bad, err, tt.want)
		}
	}
	every := List{Columns: ColumnNames(), Sort: "-notes"}
	must.NoError(t, every.Check())
	if text := writtenBy(t, every.Table(begun), casesInOrder()); strings.Count(text, "\n") != 7 {
		t.Errorf("a table of all columns:\n%s", text)
	}
}

// chunks is a writer that has each write.
type chunks [][]byte

func (c *chunks) Write(b []byte) (int, error) {
	*c = append(*c, bytes.Clone(b))
	return len(b), nil
}

// Standard output takes whole characters.
func TestCSVIsWrittenInWholeRows(t *testing.T) {
	r := jobOf(begun, func(r *jobstate.Record) { r.Job.Name = strings.Repeat("ä", 3001) })
	var c chunks
	must.NoError(t, List{}.CSV()(&c, slices.Values([]*Report{r, r, r})))
	for _, chunk := range c {
		if !utf8.Valid(chunk) {
			t.Errorf("a write of %d bytes cuts a character", len(chunk))
		}
	}
}
