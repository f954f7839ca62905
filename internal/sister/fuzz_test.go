package sister

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
)

// FuzzAnswerOfASister notes in a job's record what another host answers at its epilogue, and what
// its report of the job says. The record stays one that can be written, and its texts are lines. An
// answer that is noted twice changes nothing.
func FuzzAnswerOfASister(f *testing.F) {
	for _, text := range []string{`{}`, `null`, `{"reject":true,"message":"\u001b[2J","job_action":"hold"}`,
		`{"usage":{"ncpus":1,"cput_seconds":1.5,"mem_bytes":9,"series":{"times":[1,2],"columns":{"cpu":[0.5,null]}}}}`,
		`{"usage":{"series":{"times":[2,1]},"ranks":[{"rank":1,"comm":"a\nb"}]},"resources_used":{"mem":"1kb","x":"y\n"}}`,
		`{"usage":{"devices":[{"id":"a","series":{"times":[5],"columns":{"power_watts":[]}}},{"id":"a"}]}}`,
		`{"notes":["a\u009b"],"job_stderr":["b\r\nc"],"diag":"d\u2028e","resources_used":{"walltime":"00:00:01"}}`,
		`{"job":"1.a","end":"2026-01-01T00:00:00Z","hosts":{"n2":{"cput_seconds":-1,"devices":[{"id":"x"}]},"n3":null}}`} {
		f.Add([]byte(text), []byte(text))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		rec := &jobstate.Record{Job: &hostapi.Job{ID: "1.a"}}
		for _, text := range [][]byte{first, second} {
			out := new(hostapi.Outcome)
			if json.Unmarshal(text, out) != nil {
				continue
			}
			g := &gathered{event: hostapi.EventEpilogue, replies: []reply{{"n2", Answer{Outcome: checked(out)}}}}
			g.note(rec)
			once := recordOf(t, rec)
			g.note(rec)
			if twice := recordOf(t, rec); once != twice {
				t.Errorf("%s: noted twice: %s", text, cmp.Diff(once, twice))
			}
			v := &host.Verdict{Outcome: &hostapi.Outcome{
				ResourcesUsed: hostapi.Resources{"mem": "1kb", "walltime": "00:00:09"},
			}}
			g.addTexts(v)
			g.settleWith(v)
			if v.ResourcesUsed["walltime"] != "00:00:09" {
				t.Errorf("%s: resources %v", text, v.ResourcesUsed)
			}
			checkLines(t, append(append(v.Notes, v.JobStderr...), v.Message))
		}
		if told, err := ownUsage(first, "n2"); err == nil && checkUsage(told.Usage) == nil {
			noteUsage(rec, []string{"n2"}, map[string]Usage{"n2": told})
		}
		recordOf(t, rec)
	})
}

// recordOf returns the record as its file has it.
func recordOf(t *testing.T, rec *jobstate.Record) string {
	t.Helper()
	text, err := json.Marshal(rec)
	must.NoError(t, err)
	if err := rec.Hosts["n2"].CheckSeries(); err != nil {
		t.Errorf("%s: %v", text, err)
	}
	checkLines(t, append(rec.Notes, rec.Told...))
	return string(text)
}

func checkLines(t *testing.T, lines []string) {
	t.Helper()
	for _, line := range lines {
		if strings.ContainsFunc(line, unicode.IsControl) || len(line) > 4*hostapi.MaxLine {
			t.Errorf("not a line: %q", line)
		}
	}
}
