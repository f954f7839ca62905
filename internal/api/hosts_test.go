package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

const run32 = "0123456789abcdef0123456789abcdef"

// twoHosts is a job of nobody's on n1, its first host, and n2.
func twoHosts(id string) Job {
	j := job(id, nobody)
	j.Job.ExecVnode = "(n1:ncpus=1)+(n2:ncpus=1)"
	return j
}

// raw makes a call as the client's host and returns status and body.
func (c *Client) raw(t testing.TB, method, path, body string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://x"+path, strings.NewReader(body))
	must.NoError(t, err)
	req.Header.Set(versionHeader, majorVersion)
	if len(header) > 0 {
		req.Header.Set(versionHeader, header[0])
	}
	resp, err := c.http.Do(req)
	must.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must.NoError(t, err)
	if resp.Header.Get(versionHeader) != majorVersion && !strings.HasSuffix(path, "notices") && path != "/v1/reports" {
		t.Errorf("%s %s: the answer names version %q", method, path, resp.Header.Get(versionHeader))
	}
	return answer{resp.StatusCode, string(b)}
}

// Every route for each kind of caller. These are root and users of this host, the job's first host,
// another host of the job, and a stranger.
func TestRoutesOfEachKindOfCaller(t *testing.T) {
	b := &backend{jobs: []Job{twoHosts("1.srv"), job("2.srv", 0)}, lines: make(chan string)}
	b.jobs[0].Job.ExecVnode += "+(n3:ncpus=1)"
	close(b.lines)
	origins := map[netip.AddrPort]string{netip.MustParseAddrPort("10.0.0.2:4711"): "1.srv",
		netip.MustParseAddrPort("10.0.0.2:4712"): "2.srv"}
	a, refused := newAuthority(t), &refusals{}
	setup := func(s *Server) {
		s.Host, s.Refused, s.Sisters, s.MoM = "n2", refused.add, &sisters{heads: []string{"n1"}, origins: origins},
			&pbsMoM{}
	}
	socket := serve(t, b, setup)
	addr := serveTLS(t, a, b, refused, setup)
	head, sister, stranger := a.as("n1", addr), a.as("n3.cluster", addr), a.as("n4", addr)
	begin := `{"job":{"id":"12.srv","owner":{"user":"nobody","uid":65534},"exec_vnode":"(n1:ncpus=1)+(n2:ncpus=1)"},"run":"` + run32 + `"}`
	of := `{"job":{"id":"1.srv"},"run":"` + run32 + `"}`
	type want struct{ root, user, head, sister, stranger int }
	all := func(n int) want { return want{n, n, n, n, n} }
	tests := []struct {
		method, path, body string
		want               want
	}{
		{"POST", "/v1/events/execjob_begin", begin, want{200, 403, 200, 403, 403}},
		// The job's turn decides by the record whether the host has begun the job: see
		// internal/host.
		{"POST", "/v1/events/execjob_prologue", of, want{200, 403, 200, 200, 200}},
		{"POST", "/v1/events/execjob_resize", of, want{200, 403, 200, 200, 200}},
		{"POST", "/v1/events/execjob_resize", begin, want{200, 403, 200, 403, 403}},
		{"POST", "/v1/events/execjob_postsuspend", of, want{200, 403, 200, 200, 200}},
		{"POST", "/v1/events/execjob_preresume", of, want{200, 403, 200, 200, 200}},
		{"POST", "/v1/events/execjob_preterm", of, want{200, 403, 200, 200, 200}},
		{"POST", "/v1/events/execjob_abort", of, want{200, 403, 200, 200, 200}},
		{"POST", "/v1/events/execjob_epilogue", of, want{200, 403, 200, 200, 200}},
		{"POST", "/v1/events/execjob_end", of, want{200, 403, 200, 200, 200}},
		{"POST", "/v1/events/execjob_end", `{"job":{"id":"1.srv"}}`, want{200, 403, 400, 400, 400}},
		{"POST", "/v1/events/execjob_launch", of, want{200, 403, 403, 403, 403}},
		{"POST", "/v1/events/execjob_attach", `{"job":{"id":"1.srv"},"pid":4194301}`, want{200, 403, 403, 403, 403}},
		{"POST", "/v1/events/exechost_startup", `{}`, want{200, 403, 403, 403, 403}},
		{"POST", "/v1/events/exechost_periodic", `{}`, want{200, 403, 403, 403, 403}},
		{"POST", "/v1/events/nonsense", `{}`, want{400, 403, 400, 400, 400}},
		{"POST", "/v1/pbs/event", "x", want{200, 403, 403, 403, 403}},
		// no such process, or job
		{"POST", "/v1/attach", `{"job":"1.srv","pid":4194301}`, want{404, 404, 404, 404, 404}},
		{"POST", "/v1/attach", `{"job":"1.srv","pid":4194301,"host":"n1"}`, want{200, 200, 403, 403, 403}},
		{"POST", "/v1/attach", `{"job":"2.srv","pid":4194301,"host":"n1"}`, want{404, 404, 403, 403, 403}},
		{"GET", "/v1/jobs", "", all(200)},
		{"GET", "/v1/jobs/1.srv", "", want{200, 200, 200, 200, 404}},
		{"GET", "/v1/jobs/2.srv", "", want{200, 404, 404, 404, 404}},
		{"GET", "/v1/jobs/9.srv", "", all(404)},
		{"GET", "/v1/jobs/..%2f1.srv", "", all(400)},
		{"GET", "/v1/jobs/mine", "", want{404, 404, 403, 403, 403}},
		{"GET", "/v1/jobs/1.srv/report", "", want{200, 200, 200, 200, 404}},
		{"GET", "/v1/jobs/2.srv/report", "", want{200, 404, 404, 404, 404}},
		{"GET", "/v1/jobs/1.srv/notices", "", want{200, 200, 403, 403, 403}},
		{"GET", "/v1/reports", "", want{200, 200, 403, 403, 403}},
		{"GET", "/v1/node", "", all(200)},
		{"GET", "/v1/origin?local=10.0.0.2:4711&remote=10.0.0.1:22", "", want{403, 403, 200, 200, 404}},
		{"GET", "/v1/origin?local=10.0.0.2:4712&remote=10.0.0.1:22", "", want{403, 403, 404, 404, 404}},
		{"GET", "/v1/origin?local=10.0.0.2:1&remote=10.0.0.1:22", "", want{403, 403, 404, 404, 404}},
		{"GET", "/v1/origin?local=n1:1&remote=10.0.0.1:22", "", want{403, 403, 400, 400, 400}},
		{"POST", "/v1/reload", "", want{200, 403, 403, 403, 403}},
		{"GET", "/metrics", "", want{404, 403, 403, 403, 403}}, // none are set
		{"GET", "/", "", all(404)},
		{"PUT", "/v1/jobs/1.srv", "", all(404)},
	}
	covered := map[string]bool{}
	for _, tt := range tests {
		covered[tt.method+" "+strings.Split(tt.path, "?")[0]] = true
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			refused.clear()
			got := []answer{callAs(t, 0, socket, tt.method, tt.path, tt.body),
				callAs(t, nobody, socket, tt.method, tt.path, tt.body)}
			for _, c := range []*Client{head, sister, stranger} {
				got = append(got, c.raw(t, tt.method, tt.path, tt.body))
			}
			w, forbidden := tt.want, 0
			for i, want := range []int{w.root, w.user, w.head, w.sister, w.stranger} {
				who := []string{"root", "user", "head", "sister", "stranger"}[i]
				if got[i].Status != want {
					t.Errorf("%s: %d %s, want %d", who, got[i].Status, got[i].Body, want)
				}
				if want == 404 && i > 0 && strings.Contains(got[i].Body, "n1") {
					t.Errorf("%s learns of the job: %s", who, got[i].Body)
				}
				if got[i].Status == 403 || strings.Contains(got[i].Body, "TM_E") {
					forbidden++
				}
			}
			if list := refused.clear(); len(list) != forbidden {
				t.Errorf("told of %d refusals, want %d: %q", len(list), forbidden, list)
			}
		})
	}
	for _, e := range hostapi.Events() {
		if !covered["POST /v1/events/"+string(e)] {
			t.Errorf("no row for %s", e)
		}
	}
	// A sister sees its own job of the list.
	for c, want := range map[*Client]string{head: "1.srv", sister: "1.srv", stranger: ""} {
		jobs, err := c.Jobs(t.Context())
		var ids []string
		for _, j := range jobs {
			ids = append(ids, j.Job.ID)
		}
		if err != nil || strings.Join(ids, " ") != want {
			t.Errorf("%s sees %v, %v; want %q", c.host, ids, err, want)
		}
		if info, err := c.Node(t.Context()); err != nil || len(info.Hooks) > 0 || info.Node == "" {
			t.Errorf("node: %+v, %v", info, err)
		}
	}
}

// Allowed and refused begins of a host, and the part of them that is carried out.
func TestBeginOfAHost(t *testing.T) {
	in := func(change func(*hostapi.Request)) *hostapi.Request {
		req := &hostapi.Request{Event: hostapi.EventBegin, Run: run32,
			Job: &hostapi.Job{ID: "12.srv", MotherSuperior: true,
				Owner: hostapi.Owner{User: "nobody", UID: nobody, GID: -1}, ExecVnode: "(n1:ncpus=1)+(n2:ncpus=1)"}}
		change(req)
		return req
	}
	tests := []struct {
		name   string
		as     string
		change func(*hostapi.Request)
		status int
		text   string
	}{
		{"as it should be", "n1", func(*hostapi.Request) {}, 200, ""},
		{"by its other name", "n1",
			func(r *hostapi.Request) { r.Job.ExecHost2 = "n1.cluster:15002/0+n2.cluster:15002/0" }, 200, ""},
		{"own group", "n1", func(r *hostapi.Request) { r.Job.Owner.GID = nobody }, 200, ""},
		{"not listed", "n3", func(r *hostapi.Request) { r.Job.ExecVnode = "(n3:ncpus=1)+(n2:ncpus=1)" }, 403,
			"sister.heads"},
		{"not first", "n1", func(r *hostapi.Request) { r.Job.ExecVnode = "(n2:ncpus=1)+(n1:ncpus=1)" }, 403,
			"first host"},
		{"not first of exec_host2", "n1", func(r *hostapi.Request) { r.Job.ExecHost2 = "n2:15002/0+n1:15002/0" }, 403,
			"first host"},
		{"not here", "n1", func(r *hostapi.Request) { r.Job.ExecVnode = "(n1:ncpus=1)+(n3:ncpus=1)" }, 403,
			"nothing on n2"},
		{"nowhere", "n1", func(r *hostapi.Request) { r.Job.ExecVnode = "" }, 403, "first host"},
		{"no exec_vnode", "n1", func(r *hostapi.Request) { r.Job.ExecVnode = "(n1" }, 400, "unbalanced"},
		{"own name", "n2", func(r *hostapi.Request) { r.Job.ExecVnode = "(n2:ncpus=1)+(n1:ncpus=1)" }, 403, "own name"},
		{"no run", "n1", func(r *hostapi.Request) { r.Run = "" }, 400, "run"},
		{"upper case", "n1", func(r *hostapi.Request) { r.Run = strings.ToUpper(run32) }, 400, "run"},
		{"long run", "n1", func(r *hostapi.Request) { r.Run += "0" }, 400, "run"},
		{"nobody's", "n1", func(r *hostapi.Request) { r.Job.Owner.User = "" }, 400, "owner"},
		{"no uid", "n1", func(r *hostapi.Request) { r.Job.Owner.UID = -1 }, 400, "owner"},
		{"a user who is not here", "n1", func(r *hostapi.Request) { r.Job.Owner.User = "hhtest-no-such-user" }, 400,
			"unknown user"},
		{"another uid", "n1", func(r *hostapi.Request) { r.Job.Owner.UID = 1 }, 403, "uid 1 there and 65534 here"},
		{"root under another name", "n1", func(r *hostapi.Request) { r.Job.Owner.UID = 0 }, 403, "uid 0 there"},
		{"root", "n1", func(r *hostapi.Request) { r.Job.Owner = hostapi.Owner{User: "root", UID: 0, GID: 0} }, 403,
			"allow_root"},
		{"group of root", "n1", func(r *hostapi.Request) { r.Job.Owner.GID = 0 }, 403, "not in group 0"},
	}
	a, refused := newAuthority(t), &refusals{}
	b := &backend{}
	s := &sisters{heads: []string{"n1", "n2"}}
	addr := serveTLS(t, a, b, refused, func(server *Server) { server.Sisters = s })
	clients := map[string]*Client{}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if clients[tt.as] == nil {
				clients[tt.as] = a.as(tt.as, addr)
			}
			before := len(b.seen())
			_, err := clients[tt.as].Handle(t.Context(), in(tt.change))
			if (tt.status == 200) != (err == nil) || err != nil &&
				(!isStatus(err, tt.status) || !strings.Contains(err.Error(), tt.text)) {
				t.Errorf("%v, want %d with %q", err, tt.status, tt.text)
			}
			if carried := len(b.seen()) - before; (carried == 1) != (tt.status == 200) {
				t.Errorf("%d events carried out", carried)
			}
		})
	}
	s.allowRoot = true
	if _, err := clients["n1"].Handle(t.Context(),
		in(func(r *hostapi.Request) { r.Job.Owner = hostapi.Owner{User: "root", UID: 0, GID: 0} })); err != nil {
		t.Errorf("root's with allow_root: %v", err)
	}

	// Nothing about this host's processes, files and settings is another host's to say.
	_, err := clients["n1"].Handle(t.Context(), in(func(r *hostapi.Request) {
		r.Node, r.PID, r.Spread, r.Head, r.Progname, r.Argv, r.Env = "n9", 4711, true, "n9", "/bin/sh", []string{"x"},
			map[string]string{"LD_PRELOAD": "x"}
		r.MoM, r.VnodeList = &hostapi.ProcessID{PID: 1}, map[string]*hostapi.Vnode{"n2": {State: "offline"}}
		r.Job.SessionID, r.Job.StdoutFile, r.Job.StderrFile, r.Job.JoinPath = 4711, "/etc/passwd", "/etc/passwd", "oe"
	}))
	must.NoError(t, err)
	list := b.seen()
	got, err := json.Marshal(list[len(list)-1])
	must.NoError(t, err)
	want := in(func(r *hostapi.Request) { r.Head, r.Job.MotherSuperior = "n1", false })
	if text, _ := json.Marshal(want); !bytes.Equal(got, text) {
		t.Errorf("carried out:\n%s\nwant\n%s", got, text)
	}
	// a signal comes with preterm alone
	for e, want := range map[hostapi.Event]string{hostapi.EventPreterm: "USR1", hostapi.EventEpilogue: ""} {
		if _, err := clients["n1"].Handle(t.Context(),
			in(func(r *hostapi.Request) { r.Event, r.Signal = e, "USR1" })); err != nil {
			t.Fatal(err)
		}
		if list := b.seen(); list[len(list)-1].Signal != want {
			t.Errorf("%s: signal %q, want %q", e, list[len(list)-1].Signal, want)
		}
	}
}

// From the unix socket no event is another host's, whatever it says.
func TestHeadFromTheSocket(t *testing.T) {
	b := &backend{}
	client := dial(t, serve(t, b))
	if _, err := client.Handle(t.Context(),
		&hostapi.Request{Event: hostapi.EventEnd, Job: &hostapi.Job{ID: "1.srv"}, Head: "n1", Run: run32}); err != nil {
		t.Fatal(err)
	}
	if req := b.seen()[0]; req.Head != "" || req.Run != run32 {
		t.Errorf("head %q, run %q", req.Head, req.Run)
	}
}

// A host gets a process into a job only where this host finds that it is the job's.
func TestAttachByAHost(t *testing.T) {
	kernfstest.NeedRoot(t)
	start := func(uid uint32) string {
		cmd := exec.Command("/bin/sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		must.NoError(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return strconv.Itoa(cmd.Process.Pid)
	}
	owners, roots, others := start(nobody), start(0), start(nobody-1)
	roottoo := job("3.srv", 0)
	roottoo.Job.ExecVnode = "(n1:ncpus=1)+(n2:ncpus=1)"
	b := &backend{jobs: []Job{twoHosts("1.srv"), job("2.srv", nobody), roottoo}}
	a, refused := newAuthority(t), &refusals{}
	certain := func(int, string) error { return nil }
	s := &sisters{}
	addr := serveTLS(t, a, b, refused, func(server *Server) { server.Sisters = s })
	n1, n4 := a.as("n1", addr), a.as("n4", addr)
	for _, tt := range []struct {
		name     string
		client   *Client
		body     string
		evidence func(int, string) error
		status   int
		want     string
	}{
		{"certain", n1, `{"job":"1.srv","pid":` + owners + `}`, certain, 200, "1.srv"},
		{"not certain", n1, `{"job":"1.srv","pid":` + owners + `}`, nil, 403, KindTMOwner},
		{"another's process", n1, `{"job":"1.srv","pid":` + others + `}`, certain, 403, KindTMOwner},
		{"root's process", n1, `{"job":"1.srv","pid":` + roots + `}`, certain, 403, KindTMOwner},
		{"root's process to root's job", n1, `{"job":"3.srv","pid":` + roots + `}`, certain, 403, KindTMOwner},
		{"a job of this host alone", n1, `{"job":"2.srv","pid":` + owners + `}`, certain, 404, KindTMNotFound},
		{"a stranger", n4, `{"job":"1.srv","pid":` + owners + `}`, certain, 404, KindTMNotFound},
		{"a stranger looks for processes", n4, `{"job":"1.srv","pid":4194301}`, certain, 404, KindTMNotFound},
		{"no job", n1, `{"pid":` + owners + `}`, certain, 400, KindMalformed},
		{"no process", n1, `{"job":"1.srv","pid":4194301}`, certain, 404, KindTMNoProc},
		{"init", n1, `{"job":"1.srv","pid":1}`, certain, 400, KindMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.evidence = tt.evidence
			before := len(b.seen())
			got := tt.client.raw(t, "POST", "/v1/attach", tt.body)
			if got.Status != tt.status || !strings.Contains(got.Body, strconv.Quote(tt.want)) {
				t.Errorf("%d %s, want %d with %s", got.Status, got.Body, tt.status, tt.want)
			}
			if n := len(b.seen()) - before; (n == 1) != (tt.status == 200) {
				t.Errorf("%d events", n)
			}
		})
	}
	// The process of this host has another one's daemon attach for it: only for its own job, and a
	// host of that.
	socket := serve(t, b, func(server *Server) { server.Host, server.Sisters = "n2", s })
	if got := callAs(t, nobody, socket, "POST", "/v1/attach",
		`{"job":"1.srv","pid":7,"host":"n1"}`); got.Status != 200 || fmt.Sprint(s.forwarded) != "[n1 1.srv 7 ]" {
		t.Errorf("forward: %v, %q", got, s.forwarded)
	}
	for _, body := range []string{`{"job":"1.srv","pid":7,"host":"n4"}`, `{"job":"3.srv","pid":7,"host":"n1"}`,
		`{"pid":7,"host":"n1"}`} {
		if got := callAs(t, nobody, socket, "POST", "/v1/attach", body); got.Status < 400 || len(s.forwarded) != 1 {
			t.Errorf("%s: %v, %q", body, got, s.forwarded)
		}
	}
}

// A host is told that there is no job only where that is certain: it would end what it has of it.
func TestNoCertainAnswer(t *testing.T) {
	b := &backend{jobs: []Job{twoHosts("1.srv")}, unread: true}
	b.jobs[0].Run, b.jobs[0].Head = run32, "n1"
	a := newAuthority(t)
	n1 := a.as("n1", serveTLS(t, a, b, &refusals{}))
	if j, err := n1.Job(t.Context(), "1.srv"); err != nil || j.Run != run32 || j.Head != "n1" {
		t.Errorf("%+v, %v", j, err)
	}
	if _, err := n1.Job(t.Context(), "2.srv"); !isStatus(err, 500) || errors.Is(err, ErrNotFound) ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("state that cannot be read: %v", err)
	}
	b.unread = false
	if _, err := n1.Job(t.Context(), "2.srv"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no job: %v", err)
	}
	b.jobs[0].Job.ExecHost2 = "n3:15002/0+n1.ib:15002/0" // where n1's certificate is for another of its names
	if _, err := a.as("n1.eth", serveTLS(t, a, b, &refusals{})).Job(t.Context(), "1.srv"); !isStatus(err, 500) ||
		errors.Is(err, ErrNotFound) {
		t.Errorf("a host of another domain: %v", err)
	}
	if _, err := a.as("n11.ib", serveTLS(t, a, b, &refusals{})).Job(t.Context(), "1.srv"); !errors.Is(err,
		ErrNotFound) {
		t.Errorf("no host of the job: %v", err)
	}
}

func TestVersionsOfOtherMajorsAreRefused(t *testing.T) {
	a, refused := newAuthority(t), &refusals{}
	n1 := a.as("n1", serveTLS(t, a, &backend{}, refused))
	for told, status := range map[string]int{"1": 200, "1.7": 200, "": 426, "2": 426, "10": 426, " ": 426,
		"x\"y": 426, strings.Repeat("9", 1000): 426} {
		refused.clear()
		got := n1.raw(t, "GET", "/v1/node", "", told)
		if got.Status != status || status == 426 &&
			(!strings.Contains(got.Body, `"kind":"version"`) || len(got.Body) > 200) {
			t.Errorf("version %q: %v, want %d", told, got, status)
		}
		if len(refused.clear()) == 1 != (status == 426) {
			t.Errorf("version %q: not counted as it should be", told)
		}
	}
	if got := n1.raw(t, "GET", "/v1/node", "", "2"); !strings.Contains(got.Body,
		"n1 speaks version 2 of the API, this host 1") {
		t.Error(got.Body)
	}
	e := decodeError(426, []byte(`{"error":"n1 speaks version 2 of the API, this host 1","kind":"version"}`))
	if !errors.Is(e, ErrVersion) {
		t.Errorf("%v is not ErrVersion", e)
	}
	// A server without [sister] answers no host.
	none := a.as("n1", serveTLS(t, a, &backend{}, refused, func(s *Server) { s.Sisters = nil }))
	for _, path := range []string{"/v1/node", "/v1/jobs", "/v1/jobs/1.srv"} {
		if got := none.raw(t, "GET", path, ""); got.Status != 403 {
			t.Errorf("%s: %v", path, got)
		}
	}
	var e426 *Error
	if _, err := n1.Handle(context.Background(), begun("1.srv")); !errors.As(err, &e426) || e426.Status != 400 {
		t.Errorf("a begin without a run: %v", err)
	}
}
