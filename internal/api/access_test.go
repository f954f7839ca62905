package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

type doctor struct{}

func (doctor) Examine() {}

func TestRoutesAreOpenToRootOrToTheJobsOwner(t *testing.T) {
	b := &backend{jobs: []Job{job("1.srv", 0), job("2.srv", nobody), job("3.srv", -1)}}
	socket := serve(t, b, func(s *Server) {
		s.MoM, s.Logins, s.Doctor = &pbsMoM{}, &logins{}, doctor{}
		s.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "jobs 3") })
	})
	begin := `{"job":{"id":"12.srv"}}`
	tests := []struct {
		method, path, body string
		root, other        int
	}{
		{"GET", "/v1/jobs/mine", "", 404, 404},
		{"POST", "/v1/events/execjob_begin", begin, 200, 403},
		{"POST", "/v1/events/nonsense", begin, 400, 403},
		{"GET", "/v1/events/execjob_begin", "", 404, 404},
		{"POST", "/v1/reload", "", 200, 403},
		{"POST", "/v1/doctor", "", 200, 403},
		{"POST", "/v1/pbs/event", "x", 200, 403},
		{"GET", "/v1/pbs/event", "", 404, 404},
		{"POST", "/v1/login", `{"user":"alice","uid":65534}`, 200, 403},
		{"GET", "/v1/login", "", 404, 404},
		{"GET", "/v1/jobs", "", 200, 200},
		{"GET", "/v1/jobs/1.srv/report", "", 200, 404},
		{"GET", "/v1/jobs/2.srv/report", "", 200, 200},
		{"GET", "/v1/jobs/3.srv/report", "", 200, 404}, // of an unknown owner
		{"GET", "/v1/jobs/4.srv/report", "", 404, 404},
		{"GET", "/v1/jobs/..%2f1.srv/report", "", 400, 400},
		{"GET", "/v1/reports", "", 200, 200},
		{"POST", "/v1/reports", "", 404, 404},
		{"GET", "/v1/node", "", 200, 200},
		{"GET", "/metrics", "", 200, 403},
		{"POST", "/metrics", "", 404, 404},
		{"GET", "/", "", 404, 404},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			for uid, want := range map[int]int{0: tt.root, nobody: tt.other} {
				if got := callAs(t, uid, socket, tt.method, tt.path, tt.body); got.Status != want {
					t.Errorf("uid %d: %d %s, want %d", uid, got.Status, got.Body, want)
				}
			}
		})
	}
	if n := len(b.seen()); n != 1 {
		t.Errorf("%d events were carried out, want root's one", n)
	}
}

// A process is told of its own job. In the job of somebody else it gets the answer that it would
// get in no job.
func TestProcessIsToldOfItsOwnJob(t *testing.T) {
	for member, want := range map[string][2]int{"1.srv": {200, 404}, "2.srv": {200, 200}, "3.srv": {200, 404},
		"": {404, 404}} {
		b := &backend{jobs: []Job{job("1.srv", 0), job("2.srv", nobody), job("3.srv", -1)}, member: member}
		socket := serve(t, b)
		for i, uid := range []int{0, nobody} {
			got := callAs(t, uid, socket, "GET", "/v1/jobs/mine", "")
			if got.Status != want[i] || got.Status == 200 && !strings.Contains(got.Body, `"id":"`+member+`"`) {
				t.Errorf("uid %d in job %q: %d %s, want %d", uid, member, got.Status, got.Body, want[i])
			}
			if got.Status == 404 && strings.Contains(got.Body, "srv") {
				t.Errorf("uid %d in job %q learns of it: %s", uid, member, got.Body)
			}
		}
	}
}

func TestOthersSeeNothing(t *testing.T) {
	socket := serve(t, &backend{jobs: []Job{job("1.srv", 0), job("2.srv", nobody)}})
	there := callAs(t, nobody, socket, "GET", "/v1/jobs/1.srv/report", "")
	absent := callAs(t, nobody, socket, "GET", "/v1/jobs/9.srv/report", "")
	if absent.Body = strings.ReplaceAll(absent.Body, "9.srv", "1.srv"); there != absent {
		t.Errorf("another's job %v, no job %v", there, absent)
	}
	there = callAs(t, nobody, socket, "POST", "/v1/attach", `{"job":"1.srv","pid":$PID}`)
	absent = callAs(t, nobody, socket, "POST", "/v1/attach", `{"job":"9.srv","pid":$PID}`)
	digits := func(a answer) answer {
		a.Body = strings.Map(func(r rune) rune {
			if '0' <= r && r <= '9' {
				return -1
			}
			return r
		}, a.Body)
		return a
	}
	if there.Status != 404 || digits(there) != digits(absent) {
		t.Errorf("attach to another's job %v, to no job %v", there, absent)
	}
	for uid, want := range map[int]string{0: "1.srv 2.srv", nobody: "2.srv"} {
		got := callAs(t, uid, socket, "GET", "/v1/jobs", "")
		var ids []string
		for _, id := range []string{"1.srv", "2.srv"} {
			if strings.Contains(got.Body, id) {
				ids = append(ids, id)
			}
		}
		if strings.Join(ids, " ") != want {
			t.Errorf("uid %d sees %s, want %s", uid, got.Body, want)
		}
		node := callAs(t, uid, socket, "GET", "/v1/node", "")
		if strings.Contains(node.Body, "cgroup") != (uid == 0) {
			t.Errorf("uid %d sees of the node: %s", uid, node.Body)
		}
	}
}

func TestAttachTakesOwnProcessesIntoOwnJobs(t *testing.T) {
	sleep := exec.Command("/bin/sleep", "60")
	must.NoError(t, sleep.Start())
	t.Cleanup(func() {
		sleep.Process.Kill()
		sleep.Wait()
	})
	roots := strconv.Itoa(sleep.Process.Pid)
	own, two := []Job{job("1.srv", 0), job("2.srv", nobody)}, []Job{job("2.srv", nobody), job("3.srv", nobody)}
	tests := []struct {
		name   string
		uid    int
		jobs   []Job
		body   string
		status int
		want   string // the job, or the error's kind
	}{
		{"own process to own job", nobody, own, `{"job":"2.srv","pid":$PID}`, 200, "2.srv"},
		{"own process to the only job", nobody, own, `{"pid":$PID}`, 200, "2.srv"},
		{"the only job that is not ending", nobody, []Job{job("2.srv", nobody), job("3.srv", nobody, "exiting")},
			`{"pid":$PID}`, 200, "2.srv"},
		{"no job", nobody, nil, `{"pid":$PID}`, 404, KindTMNotFound},
		{"several jobs", nobody, two, `{"pid":$PID}`, 409, KindTMNotFound},
		{"one of several jobs", nobody, two, `{"job":"3.srv","pid":$PID}`, 200, "3.srv"},
		{"another's job", nobody, own, `{"job":"1.srv","pid":$PID}`, 404, KindTMNotFound},
		{"ending job", nobody, []Job{job("2.srv", nobody, "exiting")}, `{"job":"2.srv","pid":$PID}`, 404,
			KindTMNotFound},
		{"another's process", nobody, own, `{"job":"2.srv","pid":` + roots + `}`, 403, KindTMOwner},
		{"root, its process to another's job", 0, own, `{"job":"2.srv","pid":` + roots + `}`, 403, KindTMOwner},
		{"root, unnamed job of the process's user", 0, own, `{"pid":` + roots + `}`, 200, "1.srv"},
		{"job of an unknown owner", 0, []Job{job("1.srv", -1)}, `{"job":"1.srv","pid":` + roots + `}`, 403,
			KindTMOwner},
		{"no such process", nobody, own, `{"job":"2.srv","pid":4194305}`, 404, KindTMNoProc},
		{"init", 0, own, `{"job":"1.srv","pid":1}`, 400, KindMalformed},
		{"no pid", nobody, own, `{"job":"2.srv"}`, 400, KindMalformed},
		{"bad job", nobody, own, `{"job":"../2","pid":$PID}`, 400, KindMalformed},
		{"not JSON", nobody, own, `pid`, 400, KindMalformed},
		{"two values", nobody, own, `{"pid":$PID}{}`, 400, KindMalformed},
		{"large", nobody, own, `{"job":"` + strings.Repeat("1", maxSmall) + `"}`, 413, KindTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := &backend{jobs: tt.jobs}
			got := callAs(t, tt.uid, serve(t, b), "POST", "/v1/attach", tt.body)
			if got.Status != tt.status || !strings.Contains(got.Body, strconv.Quote(tt.want)) {
				t.Errorf("%d %s, want %d with %s", got.Status, got.Body, tt.status, tt.want)
			}
			events := b.seen()
			if (len(events) == 1) != (tt.status == 200) {
				t.Fatalf("%d events", len(events))
			}
			if tt.status == 200 &&
				(events[0].Event != hostapi.EventAttach || events[0].Job.ID != tt.want || events[0].PID <= 1) {
				t.Errorf("event %+v", events[0])
			}
		})
	}
}

// A caller learns of no process whose it is, root excepted: /proc may be mounted with hidepid.
func TestAttachTellsNoUsersProcesses(t *testing.T) {
	foreign := exec.Command("/bin/sleep", "60")
	foreign.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
	kernfstest.NeedRoot(t)
	must.NoError(t, foreign.Start())
	t.Cleanup(func() {
		foreign.Process.Kill()
		foreign.Wait()
	})
	socket := serve(t, &backend{jobs: []Job{job("1.srv", 0), job("2.srv", nobody)}})
	for _, name := range []string{"", `"job":"1.srv",`, `"job":"2.srv",`} {
		body := fmt.Sprintf(`{%s"pid":%d}`, name, foreign.Process.Pid)
		got := callAs(t, nobody, socket, "POST", "/v1/attach", body)
		if got.Status != 403 || strings.Contains(got.Body, "54321") {
			t.Errorf("a user, %s: %d %s", body, got.Status, got.Body)
		}
	}
	body := fmt.Sprintf(`{"job":"2.srv","pid":%d}`, foreign.Process.Pid)
	got := callAs(t, 0, socket, "POST", "/v1/attach", body)
	if got.Status != 403 || !strings.Contains(got.Body, "uid 54321") {
		t.Errorf("root: %d %s", got.Status, got.Body)
	}
}

func TestAttachOfReusedPid(t *testing.T) {
	b := &backend{jobs: []Job{job("1.srv", os.Getuid())}, now: ErrNotFound}
	got, err := rawCall(serve(t, b), "POST", "/v1/attach", fmt.Sprintf(`{"pid":%d}`, os.Getpid()))
	if err != nil || got.Status != 404 || !strings.Contains(got.Body, KindTMNoProc) {
		t.Errorf("%v, %v; want %s", got, err, KindTMNoProc)
	}
}

// TestAttachOfAPidThatCannotBeReadAgain plays a node that runs out of descriptors meanwhile: the
// pid may be another process's by now.
func TestAttachOfAPidThatCannotBeReadAgain(t *testing.T) {
	b := &backend{jobs: []Job{job("1.srv", os.Getuid())}, now: syscall.EMFILE}
	got, err := rawCall(serve(t, b), "POST", "/v1/attach", fmt.Sprintf(`{"pid":%d}`, os.Getpid()))
	if err != nil || got.Status != 500 {
		t.Errorf("%v, %v; want an error", got, err)
	}
}

// TestUnknownCallerMayNothing serves a connection that no Listener accepted.
func TestUnknownCallerMayNothing(t *testing.T) {
	b := &backend{jobs: []Job{job("1.srv", 0)}}
	s := NewServer(b, b, b, b)
	for _, path := range []string{"GET /v1/jobs", "GET /v1/node", "POST /v1/reload", "POST /v1/events/execjob_begin",
		"POST /v1/pbs/event", "POST /v1/attach", "POST /v1/login"} {
		method, path, _ := strings.Cut(path, " ")
		w := httptest.NewRecorder()
		s.routes().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader("{}")))
		if w.Code != http.StatusForbidden {
			t.Errorf("%s %s: %d, want 403", method, path, w.Code)
		}
	}
}

func TestConnectionsPerUser(t *testing.T) {
	socket := serve(t, &backend{})
	got := strings.TrimSpace(string(helper(t, nobody, "hold", socket, strconv.Itoa(connsPerUser+20))))
	if got != strconv.Itoa(connsPerUser) {
		t.Errorf("uid %d holds %s connections, want %d", nobody, got, connsPerUser)
	}
	if got := strings.TrimSpace(string(helper(t, 0, "hold", socket,
		strconv.Itoa(connsPerUser+20)))); got != strconv.Itoa(connsPerUser+20) {
		t.Errorf("root holds %s connections, want %d", got, connsPerUser+20)
	}
	// Closed connections are given back, each when its end has been noticed.
	for deadline := time.Now().Add(10 * time.Second); ; {
		if strings.TrimSpace(string(helper(t, nobody, "hold", socket, "1"))) == "1" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("connections that were closed still count")
		}
	}
}
