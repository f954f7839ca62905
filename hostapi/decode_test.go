package hostapi_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

func TestDecodeRequest(t *testing.T) {
	const text = `{"event": "execjob_launch", "node": "n1", "extra": {"deep": [1, "}", {"x": null}]}, "job": {
		"id": "82[3].pbshost", "owner": {"user": "u", "uid": 1000, "shoe": 43}, "in_ms_mom": false, "exit_status": null,
		"resource_list": {"ncpus": 2, "mem": "64mb", "exclusive": true, "ratio": 1.5, "none": null}},
		"progname": "/bin/sh", "argv": ["-c", "a\"}b\\", "\\u0000", null], "env": {"A": "1", "B": "ü"}, "Params": [], "job_list": {}}`
	got, err := hostapi.DecodeRequest("execjob_launch", strings.NewReader(text), 0)
	must.NoError(t, err)
	want := &hostapi.Request{
		Event: hostapi.EventLaunch, Node: "n1", Progname: "/bin/sh", Argv: []string{"-c", `a"}b\`, `\u0000`, ""},
		Env: map[string]string{"A": "1", "B": "ü"},
		Job: &hostapi.Job{
			ID: "82[3].pbshost", Owner: hostapi.Owner{User: "u", UID: 1000, GID: -1},
			ResourceList: hostapi.Resources{"ncpus": "2", "mem": "64mb", "exclusive": "True", "ratio": "1.5"},
		},
	}
	must.Equal(t, "", want, got)
}

func TestDecodeRequestDefaults(t *testing.T) {
	got, err := hostapi.DecodeRequest("execjob_begin", strings.NewReader(`{"job":{"id":"1"}}`), 0)
	must.NoError(t, err)
	want := &hostapi.Request{Event: hostapi.EventBegin, Job: &hostapi.Job{
		ID: "1", Owner: hostapi.Owner{UID: -1, GID: -1}, MotherSuperior: true,
	}}
	must.Equal(t, "", want, got)
}

func TestDecodeRequestHostEvent(t *testing.T) {
	const text = `{"event":"exechost_periodic","job":{},"job_list":{"91.s":{"owner":{}},"92.s":{"id":"92.s"}}}`
	got, err := hostapi.DecodeRequest("", strings.NewReader(text), 0)
	must.NoError(t, err)
	nobody := hostapi.Owner{UID: -1, GID: -1}
	want := &hostapi.Request{Event: hostapi.EventPeriodic, JobList: map[string]*hostapi.Job{
		"91.s": {ID: "91.s", Owner: nobody, MotherSuperior: true},
		"92.s": {ID: "92.s", Owner: nobody, MotherSuperior: true},
	}}
	must.Equal(t, "", want, got)
}

// This table pins the texts that users see.
func TestDecodeRequestErrors(t *testing.T) {
	tests := []struct{ name, event, text, want string }{
		{"empty", "execjob_begin", " \n", "event: empty"},
		{"not JSON", "execjob_begin", "{\n\"job\": banana}",
			"event: not JSON: line 2: invalid character 'b' looking for beginning of value"},
		{"cut off", "execjob_begin", `{"job":{"id":"1"}`, "event: not JSON: line 1: unexpected end of JSON input"},
		{"two objects", "execjob_begin", "{}\n{}",
			"event: not JSON: line 2: invalid character '{' after top-level value"},
		{"array", "execjob_begin", `[]`, `event: want a JSON object, got "[]"`},
		{"null", "execjob_begin", `null`, `event: want a JSON object, got "null"`},
		{"uid", "execjob_begin", `{"job":{"id":"1","owner":{"uid":"0"}}}`, "job.owner.uid: want number, got string"},
		{"uid fraction", "execjob_begin", `{"job":{"id":"1","owner":{"uid":1.5}}}`,
			"job.owner.uid: want whole number of 64 bits, got 1.5"},
		{"uid range", "execjob_begin", `{"job":{"id":"1","owner":{"uid":4294967295}}}`,
			"job.owner.uid: 4294967295 is out of range"},
		{"uid negative", "execjob_begin", `{"job":{"id":"1","owner":{"gid":-2}}}`, "job.owner.gid: -2 is out of range"},
		{"owner", "execjob_begin", `{"job":{"id":"1","owner":"root"}}`, "job.owner: want object, got string"},
		{"user", "execjob_begin", `{"job":{"id":"1","owner":{"user":"a/b"}}}`,
			`job.owner.user: "a/b" is not a user's name`},
		{"argv", "execjob_launch", `{"job":{"id":"1"},"argv":["a",7]}`, "argv: want string, got number"},
		{"argv string", "execjob_launch", `{"job":{"id":"1"},"argv":"a"}`, "argv: want array, got string"},
		{"env", "execjob_launch", `{"job":{"id":"1"},"env":{"A":["x"]}}`, "env: want string, got array"},
		{"env odd", "execjob_launch", `{"job":{"id":"1"},"env":{"a\nb":true}}`, "env: want string, got boolean"},
		{"env name", "execjob_launch", `{"job":{"id":"1"},"env":{"A=B":"1"}}`, `env: "A=B" is not a variable's name`},
		{"resource", "execjob_begin", `{"job":{"id":"1","resource_list":{"mem":{}}}}`,
			"job.resource_list.mem: want string, got object"},
		{"resources", "execjob_begin", `{"job":{"id":"1","resource_list":[]}}`,
			"job.resource_list: want object, got array"},
		{"in_ms_mom", "execjob_begin", `{"job":{"id":"1","in_ms_mom":"True"}}`,
			"job.in_ms_mom: want boolean, got string"},
		{"no job", "execjob_begin", `{}`, "job: missing"},
		{"null job", "execjob_begin", `{"job":null}`, "job: missing"},
		{"no id", "execjob_begin", `{"job":{}}`, "job.id: missing"},
		{"number id", "execjob_begin", `{"job":{"id":1}}`, "job.id: want string, got number"},
		{"bad id", "execjob_begin", `{"job":{"id":"../1"}}`, `job.id: job id "../1": not of the form 12, 12.server or 12[3].server`},
		{"contradiction", "execjob_begin", `{"event":"execjob_end","job":{"id":"1"}}`,
			`event: "execjob_end" contradicts "execjob_begin"`},
		{"unknown event", "execjob_start", `{"job":{"id":"1"}}`, `event "execjob_start": unknown name`},
		{"no event", "", `{"job":{"id":"1"}}`, "event: missing"},
		{"NUL in argv", "execjob_launch", `{"job":{"id":"1"},"argv":["a\u0000b"]}`, "event: a string holds a NUL byte"},
		{"NUL in env", "execjob_launch", `{"job":{"id":"1"},"env":{"A":"\u0000"}}`, "event: a string holds a NUL byte"},
		{"NUL in a name", "execjob_launch", `{"job":{"id":"1"},"env":{"A\u0000":""}}`,
			"event: a string holds a NUL byte"},
		{"attach whom", "execjob_attach", `{"job":{"id":"1"}}`, "pid: missing"},
		{"pid", "execjob_attach", `{"job":{"id":"1"},"pid":-1}`, "pid: -1 is negative"},
		{"mom", "execjob_begin", `{"job":{"id":"1"},"mom":{"start_time":-1}}`,
			"mom.start_time: want whole number of 64 bits, got -1"},
		{"mom pid", "execjob_begin", `{"job":{"id":"1"},"mom":{}}`, "mom.pid: 0 is no process"},
		{"list id", "exechost_periodic", `{"job_list":{"x":{}}}`, `job_list."x".id: job id "x": not of the form 12, 12.server or 12[3].server`},
		{"list ids", "exechost_periodic", `{"job_list":{"1":{"id":"2"}}}`, `job_list."1": its id is "2"`},
		{"list null", "exechost_periodic", `{"job_list":{"1":null}}`, `job_list."1": empty`},
		{"list type", "exechost_periodic", `{"job_list":{"1":{"name":1}}}`, "job_list.name: want string, got number"},
		{"kill delay", "execjob_begin", `{"job":{"id":"1","job_kill_delay":-1}}`, "job.job_kill_delay: -1 is negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := hostapi.DecodeRequest(tt.event, strings.NewReader(tt.text), 0)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			if req != nil || hostapi.KindOf(err) != hostapi.KindJob {
				t.Errorf("got %v, kind %q beside the error", req, hostapi.KindOf(err))
			}
		})
	}
}

func TestDecodeRequestLimit(t *testing.T) {
	text := `{"job":{"id":"1","name":"` + strings.Repeat("x", 100) + `"}}`
	for _, tt := range []struct {
		limit int
		want  string
	}{{len(text), ""}, {len(text) - 1, "event: larger than 127 bytes"}} {
		r := strings.NewReader(text)
		_, err := hostapi.DecodeRequest("execjob_begin", r, int64(tt.limit))
		if (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
			t.Errorf("limit %d: got %v, want %q", tt.limit, err, tt.want)
		}
	}
	// Reading stops there.
	r := strings.NewReader(strings.Repeat(" ", 1000))
	if _, err := hostapi.DecodeRequest("execjob_begin", r, 10); err == nil || r.Len() != 1000-11 {
		t.Errorf("%v, %d bytes left", err, r.Len())
	}
	broken := errors.New("broken")
	if _, err := hostapi.DecodeRequest("execjob_begin", iotest.ErrReader(broken), 0); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

// The last of two keys of one name counts, at every depth.
func TestDecodeRequestDuplicates(t *testing.T) {
	got, err := hostapi.DecodeRequest("execjob_begin",
		strings.NewReader(`{"job":{"id":"1","name":"a"},"job":{"id":"2","id":"3"}}`), 0)
	if err != nil || got.Job.ID != "3" || got.Job.Name != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzDecodeRequest(f *testing.F) {
	for _, seed := range []string{
		`{"job":{"id":"1"}}`, `{"event":"execjob_begin","job":{"id":"1[2].s","owner":{"uid":-1},"resource_list":{"a":1e3}}}`,
		`{"job":{"id":"1"},"env":{"A\u0041":"\\"},"x":[{},[1,"]"],-0.5e-7,null]}`, "[\"\\\"\"]", `{"JOB":{"ID":"1"}}`,
		`{"event":"exechost_startup","job_list":{"1":{}}}`, `{"job":{"id":"1"},"argv":["\u0000"]}`, `{"job":null,"":1}`,
	} {
		f.Add("execjob_begin", seed)
		f.Add("", seed)
	}
	f.Fuzz(func(t *testing.T, event, text string) {
		req, err := hostapi.DecodeRequest(event, strings.NewReader(text), 0)
		if err != nil {
			if req != nil {
				t.Fatalf("%v beside %v", req, err)
			}
			if strings.ContainsAny(err.Error(), "\n\x00") || len(err.Error()) > 1200 {
				t.Fatalf("not one short line: %q", err)
			}
			return
		}
		b, err := json.Marshal(req)
		must.NoError(t, err)
		again, err := hostapi.DecodeRequest(string(req.Event), strings.NewReader(string(b)), 0)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if b2, _ := json.Marshal(again); string(b2) != string(b) {
			t.Fatalf("unstable: %s, then %s", b, b2)
		}
	})
}

// The hot path of the socket: one event in, at the size that PBS sends.
func BenchmarkDecodeRequest(b *testing.B) {
	text, err := os.ReadFile("testdata/launch.json")
	must.NoError(b, err)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := hostapi.DecodeRequest("execjob_launch", strings.NewReader(string(text)), 0); err != nil {
			b.Fatal(err)
		}
	}
}
