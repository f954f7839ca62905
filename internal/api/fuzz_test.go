package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

// someProcesses are a backend whose processes are those of uid 1000 below pid 100, and of others
// above.
type someProcesses struct{ *backend }

func (p someProcesses) Number(_, pid int) (int, error)   { return pid, nil }
func (p someProcesses) Check(hostapi.ProcessID) error    { return nil }
func (p someProcesses) Process(pid int) (Process, error) { return Process{UID: ownerOf(pid)}, nil }

func ownerOf(pid int) int {
	if pid < 100 {
		return 1000
	}
	return 2000
}

// FuzzServer sends the server a request as it stands on the wire. The caller is root, a user, or
// not known. A caller that is not root causes no event but those that it may, and learns nothing of
// the job hidden.
func FuzzServer(f *testing.F) {
	post := func(path, header, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", path, header, len(body), body)
	}
	get := func(target string) string { return "GET " + target + " HTTP/1.1\r\n\r\n" }
	newJob := `{"job":{"id":"2.b","exec_vnode":"(n2:ncpus=1)+(n1:ncpus=1)","owner":{"user":"nobody","uid":65534}}}`
	for _, text := range []string{
		get("/v1/jobs"), get("/v1/jobs/1.a/report"), get("/v1/jobs/3.c"),
		get("/v1/reports?user=u1000&limit=3&state=ok,oom"), get("/v1/reports?since=2026-01-01T00:00:00Z&host=n2"),
		get("/v1/node"), get("/v1/jobs/mine"), get("/metrics"),
		get("/v1/%2e%2e/jobs"), post("/v1/reload", "", ""), post("/v1/jobs", "", ""),
		post("/v1/attach", "", `{"job":"1.a","pid":17}`), post("/v1/attach", "", `{"pid":117}`),
		post("/v1/pbs/event", "Hookhost-Parent: 3\r\nAccept: application/x-pbs-hook-output\r\n", "ab"),
		post("/v1/events/execjob_begin", "", newJob), post("/v1/events/execjob_end", "", newJob),
	} {
		for caller := range uint8(3) {
			f.Add(text, caller)
		}
	}
	procfs, err := kernfs.Open("/proc")
	must.NoError(f, err)
	own, hidden := job("1.a", 1000), job("3.c", 2000)
	hidden.Job.Name = "hidden"
	hidden.Job.ExecVnode, hidden.Job.ExecHost2 = "(n1:ncpus=1)", "n1:15002/0"
	own.Job.ExecVnode, own.Job.ExecHost2 = "(n1:ncpus=1)+(n2:ncpus=1)", "n1:15002/0+n2:15002/0"
	f.Fuzz(func(t *testing.T, text string, caller uint8) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			return
		}
		b := &backend{jobs: []Job{own, hidden}, procfs: procfs, member: "1.a"}
		s := NewServer(b, b, b, someProcesses{b})
		s.Reports, s.Meter, s.MoM, s.Host = b, &gauge{}, &pbsMoM{}, "n1"
		s.Metrics = http.NotFoundHandler()
		ctx := r.Context()
		peer := Peer{}
		if int(caller) < len(callers) {
			peer = callers[caller]
			ctx = context.WithValue(ctx, peerKey{}, peer)
		}
		w := httptest.NewRecorder()
		func() {
			defer func() {
				if broken := recover(); broken != nil && broken != http.ErrAbortHandler {
					panic(broken)
				}
			}()
			s.routes().ServeHTTP(w, r.WithContext(ctx))
		}()
		checkAnswer(t, w.Result(), len(text))
		if peer.root() && int(caller) < len(callers) {
			return
		}
		if body := w.Body.String(); strings.Contains(body, "hidden") && !strings.Contains(text, "hidden") {
			t.Errorf("%s is told %s", peer, body)
		}
		for _, e := range b.seen() {
			checkEventOf(t, peer, e)
		}
	})
}

// callers are root and a user. Any further caller is not known.
var callers = []Peer{{PID: 1}, {PID: 17, UID: 1000}}

// checkAnswer looks at an answer to a request of so many bytes.
func checkAnswer(t *testing.T, answer *http.Response, asked int) {
	t.Helper()
	body, err := io.ReadAll(answer.Body)
	must.NoError(t, err)
	switch {
	case answer.StatusCode < 400:
		return
	case strings.HasPrefix(answer.Header.Get("Content-Type"), "text/plain"): // net/http's own, to a method
		return
	}
	e := &Error{}
	if err := json.Unmarshal(body, e); err != nil || e.Message == "" || e.Kind == "" || len(body) > 2048+8*asked {
		t.Errorf("%d: %q: %v", answer.StatusCode, body, err)
	}
}

// checkEventOf looks at an event that a caller has caused who is not root.
func checkEventOf(t *testing.T, peer Peer, e *hostapi.Request) {
	t.Helper()
	switch {
	case peer.UID == 1000:
		if e.Event != hostapi.EventAttach || e.Job.Owner.UID != 1000 || ownerOf(e.PID) != 1000 || e.PID <= 1 {
			t.Errorf("a user causes %+v", e)
		}
	default:
		t.Errorf("%s causes %+v", peer, e)
	}
}

// FuzzAnswer has a client read what another program sends in the daemon's place.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{`{"error":"denied","kind":"denied"}`,
		`{"jobs":[{"job":{"id":"1"},"phase":"running"},null]}`,
		`{"job":"1","outcome":{"reject":true,"message":"no"}}`, `{"seq":1,"job_stderr":["a"]}` + "\n{}", `[]`, `null`} {
		f.Add(200, []byte(body))
		f.Add(403, []byte(body))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		answer := func() *http.Response {
			return &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(body))}
		}
		for _, out := range []any{&jobList{}, &Job{}, &Attached{}, &hostapi.Outcome{}, &NodeInfo{}, &PresentJobs{},
			&json.RawMessage{}} {
			err := readAnswer(answer(), out)
			if status != http.StatusOK && err == nil {
				t.Errorf("%d %.100q was taken: %+v", status, body, out)
			}
			if e, ok := err.(*Error); ok && (e.Message == "" || e.Status != status) {
				t.Errorf("%d %.100q: %+v", status, body, e)
			}
		}
		e := decodeError(status, body)
		if !slices.Contains([]string{"TM_ESYSTEM", KindTMHook, KindTMNoProc, KindTMNotFound, KindTMOwner}, e.TM()) {
			t.Errorf("%.100q is %s of the task manager", body, e.TM())
		}
	})
}
