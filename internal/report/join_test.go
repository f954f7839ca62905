package report

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
)

// written returns what a host of the job 104.srv has printed. Its mother superior n1 knows n2 by
// what MoM has logged, under its long name, and nothing of n4. Each host knows itself.
func written(t *testing.T, host string, change func(*jobstate.Record)) Part {
	t.Helper()
	rec := *cases["imbalanced"]
	all, job, own := rec.Hosts, *rec.Job, *rec.Hosts[host] // change changes no other test's case
	rec.Job, rec.Hosts = &job, map[string]*hostapi.HostUsage{host: &own}
	if job.MotherSuperior = host == "n1"; job.MotherSuperior {
		rec.Hosts["n2.cluster"] = &hostapi.HostUsage{NCPUs: 8, CPUTSeconds: ptr(14099.0), MemBytes: all["n2"].MemBytes,
			MemSource: "as its pbs_mom told"}
		rec.Missing = map[string]string{"n4.cluster": "pbs_mom has logged no usage of it"}
	} else {
		rec.Launched = jobstate.Moment{}
	}
	if change != nil {
		change(&rec)
	}
	return part(t, &rec, host+".json")
}

func part(t *testing.T, rec *jobstate.Record, from string) Part {
	t.Helper()
	var b bytes.Buffer
	must.NoError(t, fromRecord(rec, rec.Ended.Wall).WriteJSON(&b))
	parts, err := ReadParts(&b, from)
	must.NoError(t, err)
	return parts[0]
}

// A joined report is the one that a mother superior would write who had measured all hosts. The
// order of the files does not count, nor a file that is there twice.
func TestJoinedReportIsThatOfOneWhoMeasuredAllHosts(t *testing.T) {
	n1, n2, n4 := written(t, "n1", nil), written(t, "n2", nil), written(t, "n4", nil)
	want := part(t, cases["imbalanced"], "").Report
	for _, parts := range [][]Part{{n1, n2, n4}, {n4, n2, n1}, {n4, n2, n1, n1, n4, n2}} {
		got, err := Join(parts)
		must.NoError(t, err)
		for name, format := range formats {
			var whole, joined bytes.Buffer
			must.NoError(t, format(&whole, slices.Values([]*Report{want})),
				format(&joined, slices.Values([]*Report{got})))
			must.Equal(t, name, whole.String(), joined.String())
		}
	}
	joined, err := Join([]Part{n1, n2})
	must.NoError(t, err)
	joined, err = Join([]Part{{joined, "joined.json"}, n4})
	must.NoError(t, err)
	var whole, inSteps bytes.Buffer
	must.NoError(t, want.WriteJSON(&whole), joined.WriteJSON(&inSteps))
	must.Equal(t, "joined in two steps", whole.String(), inSteps.String())
}

func TestJoinedReportNamesWhatIsNotKnown(t *testing.T) {
	ended := cases["imbalanced"].Ended.Wall
	live := func(r *jobstate.Record) { r.Ended = jobstate.Moment{} }
	for _, tt := range []struct {
		name    string
		parts   []Part
		cput    string
		missing map[string]string
		end     *time.Time
		status  *int
	}{
		{"n4 has no file", []Part{written(t, "n1", nil), written(t, "n2", nil)}, "11:40:00",
			map[string]string{"n4.cluster": "pbs_mom has logged no usage of it"}, known(ended), ptr(0)},
		{"n2 is known by MoM's log", []Part{written(t, "n1", nil), written(t, "n4", nil)}, "14:09:59",
			nil, known(ended), ptr(0)},
		{"mother superior has no file", []Part{written(t, "n4", nil), written(t, "n2", nil)}, "06:25:00",
			map[string]string{"n1.cluster": "no report of it"}, known(ended), nil},
		{"n4 wrote before the end", []Part{written(t, "n1", nil), written(t, "n2", nil), written(t, "n4", live)},
			"14:10:00", map[string]string{"n4": "its report was written while the job ran"}, known(ended),
			ptr(0)},
		{"mother superior wrote before the end", []Part{written(t, "n1", func(r *jobstate.Record) {
			live(r)
			r.ExitStatus = nil
		}), written(t, "n2", live), written(t, "n4", nil)}, "14:10:00", nil, nil, nil},
	} {
		r, err := Join(tt.parts)
		must.NoError(t, err)
		if len(r.Missing) == 0 {
			r.Missing = nil
		}
		must.Equal(t, tt.name, Report{ResourcesUsed: Used{"cput": tt.cput}, Missing: tt.missing, End: tt.end,
			ExitStatus: tt.status}, Report{ResourcesUsed: Used{"cput": r.ResourcesUsed["cput"]}, Missing: r.Missing,
			End: r.End, ExitStatus: r.ExitStatus})
	}
}

// A joined report has what the hooks of each host told: notes, messages, and resources that no host
// measures. Advice on a part of the job is not in it.
func TestJoinedReportHasTheWordsOfEachHost(t *testing.T) {
	words := func(host, energy string) Part {
		return written(t, host, func(r *jobstate.Record) {
			r.Hosts[host].OOMKills = ptr(int64(1))
			r.Notes = []string{"a note"}
			r.Diag = map[string]string{host: "killed on " + host}
			r.ResourcesUsed = hostapi.Resources{"energy": energy, "walltime": "00:59:00", "site": "a"}
		})
	}
	r, err := Join([]Part{words("n4", "0.25"), words("n1", "0.5"), words("n2", "1.0")})
	must.NoError(t, err)
	must.Equal(t, "notes", []string{"a note", "n2: a note", "n4: a note",
		"try mem=21gb on each host: mem=16gb was too little on n1, n2, n4; " +
			"11.9gb were in use half-way",
		"uneven work: n1 used 3.1 times the cpu time of n4, 07:45:00 and 02:30:00",
		"try walltime=01:15:00: the job used 49% of 02:00:00; with a shorter walltime it may start sooner"},
		sortedButAdvice(r.Notes))
	must.Equal(t, "messages", map[string]string{"n1": "killed on n1", "n2": "killed on n2",
		"n4": "killed on n4"}, r.DiagMessages)
	for name, want := range map[string]string{"energy": "1.75", "walltime": "00:59:00", "site": "a", "ncpus": "24"} {
		must.Equal(t, name, want, r.ResourcesUsed[name])
	}
}

// sortedButAdvice has the notes of hosts in order, and advice as it comes.
func sortedButAdvice(notes []string) []string {
	slices.Sort(notes[:3])
	return notes
}

func TestReportsThatAreNoneOfOneRunAreNotJoined(t *testing.T) {
	n1 := written(t, "n1", nil)
	of := func(host string, change func(*hostapi.Job)) Part {
		p := written(t, host, func(r *jobstate.Record) { change(r.Job) })
		p.From = "other.json"
		return p
	}
	runs := func(count, version int) Part {
		return of("n2", func(j *hostapi.Job) { j.RunCount, j.RunVersion = count, version })
	}
	later := written(t, "n2", func(r *jobstate.Record) { r.Hosts["n2"] = caseHost(3, 4) })
	later.From = "later.json"
	for _, tt := range []struct {
		name  string
		parts []Part
		want  string // "" is no error
	}{
		{"another job", []Part{n1, of("n2", func(j *hostapi.Job) { j.ID = "7.srv" })},
			"join n1.json and other.json: job 104.srv and job 7.srv"},
		{"another run", []Part{runs(3, 0), n1}, "join n1.json and other.json: run_count 1 and 3 of job 104.srv"},
		{"another run by run_version", []Part{of("n1", func(j *hostapi.Job) { j.RunVersion = 2 }), runs(1, 4)},
			"run_version 2 and 4 of job 104.srv"},
		{"a run_count that was altered", []Part{of("n1", func(j *hostapi.Job) { j.RunVersion = 4 }), runs(9, 4)}, ""},
		{"a run that one host does not know", []Part{n1, runs(0, 0)}, ""},
		{"a host twice", []Part{n1, written(t, "n2", nil), later},
			"join n2.json and later.json: host n2 is in both"},
		{"the mother superior twice", []Part{n1, of("n1", func(j *hostapi.Job) { j.Queue = "x" })},
			"join n1.json and other.json: host n1 is in both"},
		{"a host that calls itself like the mother superior", []Part{n1, of("n1", func(j *hostapi.Job) {
			j.MotherSuperior = false
		})}, "host n1 is in both"},
	} {
		_, err := Join(tt.parts)
		if tt.want == "" {
			must.NoError(t, err)
		} else if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

func TestDamagedReportIsNotRead(t *testing.T) {
	whole, err := json.Marshal(written(t, "n2", nil).Report)
	must.NoError(t, err)
	parts, err := ReadParts(strings.NewReader(string(whole)+"\n\n"+string(whole)), "-")
	if err != nil || len(parts) != 2 {
		t.Errorf("two reports in one file: %d, %v", len(parts), err)
	}
	for text, want := range map[string]string{
		"":                                      "empty, not a report",
		"n2: Permission denied":                 "not a report: invalid character",
		string(whole[:300]):                     "not a report: unexpected EOF",
		string(whole) + "x":                     "not a report: invalid character",
		`{"job":"104.srv"}`:                     "not a report: it lacks job or pbs_job",
		`{"pbs_job":{"id":"104.srv"}}`:          "not a report: it lacks job or pbs_job",
		`{"job":"1","pbs_job":{},"hosts":"n1"}`: "not a report: hosts is a JSON string",
		`[1]`:                                   "not a report: it is a JSON array",
		`null`:                                  "not a report: it lacks job or pbs_job",
	} {
		_, err := ReadParts(strings.NewReader(text), "n2.json")
		if err == nil || !strings.HasPrefix(err.Error(), "n2.json: "+want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

// zeros never ends, as what a gzip of some kB unpacks to.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '0'
	}
	return len(b), nil
}

func TestEndlessReportIsNotReadIntoMemory(t *testing.T) {
	endless := io.LimitReader(zeros{}, 2*maxParts)
	_, err := ReadParts(io.MultiReader(strings.NewReader(`{"job":"`), endless), "n2.json.gz")
	if err == nil || !strings.HasPrefix(err.Error(), "read n2.json.gz: more than 256 MiB") {
		t.Errorf("%v", err)
	}
}
