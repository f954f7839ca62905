package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/report"
)

// Everybody reads the reports of own finished jobs, root of all; a list that is not whole is an
// error.
func TestReportsAreTheirOwnersAndRoots(t *testing.T) {
	list := func(b *backend) (text string, err error) {
		err = dial(t, serve(t, b)).Reports(t.Context(), report.Filter{},
			func(report json.RawMessage) bool { text += string(report); return true })
		return text, err
	}
	jobs := []Job{job("1.srv", os.Getuid()), job("2.srv", nobody), job("3.srv", -1)}
	const all = `{"job":"1.srv"}{"job":"2.srv"}{"job":"3.srv"}`
	if text, err := list(&backend{jobs: jobs}); err != nil || os.Getuid() == 0 && text != all ||
		!strings.HasPrefix(text, `{"job":"1.srv"}`) {
		t.Errorf("Reports = %s, %v, want %s", text, err, all)
	}
	broken := errors.New("disk")
	if text, err := list(&backend{jobs: jobs, broken: broken}); err == nil {
		t.Errorf("Reports that are broken = %s, want an error", text)
	}
	if _, err := list(&backend{broken: broken}); !isStatus(err, 500) {
		t.Errorf("Reports that cannot be read: %v, want status 500", err)
	}
	if text, err := list(&backend{}); err != nil || text != "" {
		t.Errorf("no reports: %q, %v", text, err)
	}
	socket := serve(t, &backend{jobs: []Job{job("1.srv", 0), job("2.srv", nobody)}})
	if got := callAs(t, nobody, socket, "GET", "/v1/reports", ""); got.Status != 200 ||
		got.Body != "{\"job\":\"2.srv\"}\n" {
		t.Errorf("uid %d reads %+v, want the own one", nobody, got)
	}
}

func TestReportsAreChosenByTheHost(t *testing.T) {
	jobs := []Job{job("1.srv", os.Getuid()), job("2.srv", nobody)}
	socket := serve(t, &backend{jobs: jobs})
	text := ""
	must.NoError(t, dial(t, socket).Reports(t.Context(), report.Filter{User: jobs[0].Job.Owner.User, Limit: 3},
		func(report json.RawMessage) bool { text += string(report); return true }))
	must.Equal(t, "", `{"job":"1.srv"}`, text)
	for _, query := range []string{"since=yesterday", "limit=-1", "limit=x", "state=asleep", "colour=red"} {
		if a, err := rawCall(socket, "GET", "/v1/reports?"+query, ""); err != nil || a.Status != 400 {
			t.Errorf("%s: %+v, %v", query, a, err)
		}
	}
}

// A list with damage has every whole report, and then the damage: to root with its places, to
// others without.
func TestListWithDamagedReports(t *testing.T) {
	broken := fmt.Errorf("reports/2026-03-01/7.srv.json.gz: %w", ErrDamaged)
	for _, jobs := range [][]Job{nil, {job("1.srv", os.Getuid())}} {
		text := ""
		c := dial(t, serve(t, &backend{jobs: jobs, broken: broken}))
		err := c.Reports(t.Context(), report.Filter{}, func(report json.RawMessage) bool {
			text += string(report)
			return true
		})
		if !errors.Is(err, ErrDamaged) || os.Getuid() == 0 &&
			!strings.Contains(err.Error(), "7.srv.json.gz") {
			t.Errorf("error %v", err)
		}
		if strings.Count(text, "{") != len(jobs) {
			t.Errorf("%q, want %d reports", text, len(jobs))
		}
	}
	socket := serve(t, &backend{jobs: []Job{job("2.srv", nobody)}, broken: broken})
	if got := callAs(t, nobody, socket, "GET", "/v1/reports", ""); got.Status != 200 ||
		got.Body != "{\"job\":\"2.srv\"}\n" {
		t.Errorf("uid %d reads %+v, want the own one", nobody, got)
	}
	if text := damageFor(Peer{UID: nobody}, broken); strings.Contains(text, "7.srv") || text == "" {
		t.Errorf("uid %d is told %q", nobody, text)
	}
}

// slowBackend counts the lists that it makes at a time, and makes each of them for as long as its
// caller is there.
type slowBackend struct {
	*backend
	mu      sync.Mutex
	working int
	most    int
	begun   chan struct{}
}

func (b *slowBackend) Find(ctx context.Context, _ report.Filter, _ func(int) bool,
	_ func(json.RawMessage) bool) error {
	b.add(1)
	defer b.add(-1)
	b.begun <- struct{}{}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (b *slowBackend) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.working += n
	b.most = max(b.most, b.working)
}

// A user has one list made at a time, however many he asks for, and each ends with its caller. Root
// and other users do not wait for him.
func TestListsOfOneUserAtATime(t *testing.T) {
	b := &slowBackend{backend: &backend{}, begun: make(chan struct{}, 100)}
	socket := serve(t, b.backend, func(s *Server) { s.Reports = b })
	kernfstest.NeedRoot(t)
	const calls = 5
	done := make(chan struct{})
	for range calls { // each is killed when its list has been begun
		go func() {
			callAndLeave(t, nobody, socket, "/v1/reports")
			done <- struct{}{}
		}()
	}
	for range calls {
		<-done
	}
	b.mu.Lock()
	if b.most > 1 {
		t.Errorf("%d lists of one user at a time", b.most)
	}
	b.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for len(b.begun) > 0 {
		<-b.begun
	}
	for range calls { // root's
		asking.Go(func() { dial(t, socket).Reports(ctx, report.Filter{}, func(json.RawMessage) bool { return true }) })
	}
	for range calls {
		<-b.begun
	}
	cancel()
	asking.Wait()
}

// callAndLeave makes a call as uid and hangs up a moment later.
func callAndLeave(t *testing.T, uid int, socket, path string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", socket, "GET", path, "")
	cmd.Env = []string{"API_TEST_HELPER=call", "GORACE=atexit_sleep_ms=0"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return
	}
	time.Sleep(200 * time.Millisecond) // some are in line, one at work: whichever, it must end with its caller
	cmd.Process.Kill()
	cmd.Wait()
}

// busy is a host whose lists of jobs and whose descriptions take a while. It counts how many it
// works on at a time, and for how long.
type busy struct {
	*backend
	lasts time.Duration

	mu           sync.Mutex
	atWork, most int
	worked       time.Duration
}

func (b *busy) work() {
	b.mu.Lock()
	b.atWork++
	b.most, b.worked = max(b.most, b.atWork), b.worked+b.lasts
	b.mu.Unlock()
	time.Sleep(b.lasts)
	b.mu.Lock()
	b.atWork--
	b.mu.Unlock()
}

func (b *busy) Jobs(context.Context) ([]Job, error)    { b.work(); return nil, nil }
func (b *busy) Node(context.Context) (NodeInfo, error) { b.work(); return NodeInfo{}, nil }
func (b *busy) Number(_, pid int) (int, error)         { return pid, nil }
func (b *busy) Process(int) (Process, error)           { return Process{UID: 7}, nil }

// ask makes a call as a user. The answer is written to w.
func ask(ctx context.Context, s *Server, uid int, call string, w http.ResponseWriter) {
	method, path, _ := strings.Cut(call, " ")
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(`{"pid":7}`)
	}
	ctx = context.WithValue(ctx, peerKey{}, Peer{PID: 7, UID: uid})
	defer func() {
		if gone := recover(); gone != nil && gone != http.ErrAbortHandler {
			panic(gone)
		}
	}()
	s.http.Handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, path, body))
}

// A user asks on eight connections without end what takes a tenth of a second each. He gets no more
// than a cpu's time for that, whatever an answer costs, and nobody else waits for him. A question
// that waits ends with its caller.
func TestQuestionsOfOneUserTakeOneCPUAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lasts = 10 * time.Second
		b := &busy{lasts: 100 * time.Millisecond}
		s := NewServer(b, b, b, b)
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		var asking sync.WaitGroup
		for i := range 8 {
			call := []string{"GET /v1/jobs", "GET /v1/node", "POST /v1/attach"}[i%3]
			asking.Go(func() {
				for ctx.Err() == nil {
					ask(ctx, s, 7, call, httptest.NewRecorder())
				}
			})
		}
		time.Sleep(lasts / 2)
		for _, uid := range []int{8, 0} {
			began := time.Now()
			ask(ctx, s, uid, "GET /v1/jobs", httptest.NewRecorder())
			must.Equal(t, fmt.Sprintf("uid %d waits", uid), b.lasts, time.Since(began))
		}
		asking.Wait()
		if b.most > questionsPerUser+1 || b.worked > lasts+time.Second {
			t.Errorf("%d questions at a time, which took %v of %v", b.most, b.worked, lasts)
		}
		time.Sleep(lasts)
		synctest.Wait()
		if len(s.questions.callers) > 0 {
			t.Errorf("left behind: %v", s.questions.callers)
		}
	})
}

// unread is a connection whose caller reads nothing until it is closed.
type unread struct {
	*httptest.ResponseRecorder
	closed chan struct{}
}

func (u unread) Write([]byte) (int, error) { <-u.closed; return 0, io.ErrClosedPipe }

// A user who reads no answers has two made, however many he asks for.
func TestAnswersThatNobodyReadsAreNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &busy{lasts: time.Second}
		s := NewServer(b, b, b, b)
		closed := make(chan struct{})
		ctx, hangUp := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		for range 8 {
			asking.Go(func() { ask(ctx, s, 7, "GET /v1/jobs", unread{httptest.NewRecorder(), closed}) })
		}
		time.Sleep(time.Minute)
		hangUp()
		synctest.Wait()
		close(closed)
		asking.Wait()
		must.Equal(t, "time that the answers took", questionsPerUser*b.lasts, b.worked)
		time.Sleep(time.Minute)
	})
}

// The server would not see the caller of a question with a body go.
func TestQuestionsHaveNoBody(t *testing.T) {
	socket := serve(t, &backend{})
	for _, path := range []string{"/v1/reports", "/v1/jobs", "/v1/jobs/1.srv", "/v1/jobs/1.srv/report",
		"/v1/jobs/mine", "/v1/node"} {
		if a, err := rawCall(socket, "GET", path, "x"); err != nil || a.Status != 400 {
			t.Errorf("%s: %+v, %v", path, a, err)
		}
	}
}
