package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/report"
)

// nobody is the user that the tests call as when they are not root.
const nobody = 65534

// TestMain is also the program that calls the API as another user: see callAs.
func TestMain(m *testing.M) {
	switch os.Getenv("API_TEST_HELPER") {
	case "call":
		callAndPrint(os.Args[1], os.Args[2], os.Args[3], os.Args[4])
	case "hold":
		holdAndPrint(os.Args[1], os.Args[2])
	case "hear":
		hearAndPrint(os.Args[1])
	default:
		goleak.VerifyTestMain(m)
	}
}

// answer is what came back of a call.
type answer struct {
	Status int
	Body   string
}

// callAndPrint makes one call; $PID in its body is the caller's own.
func callAndPrint(socket, method, path, body string) {
	a, err := rawCall(socket, method, path, strings.ReplaceAll(body, "$PID", strconv.Itoa(os.Getpid())))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(a)
}

// holdAndPrint opens connections and prints how many of them the host keeps.
func holdAndPrint(socket, count string) {
	n, _ := strconv.Atoi(count)
	conns := make([]net.Conn, n)
	for i := range conns {
		var err error
		if conns[i], err = net.Dial("unix", socket); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	kept := 0
	for _, c := range conns {
		// A refused connection ends at once; one that is kept answers.
		io.WriteString(c, "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n")
		if b, _ := io.ReadAll(io.LimitReader(c, 15)); bytes.HasPrefix(b, []byte("HTTP/1.1 200")) {
			kept++
		}
	}
	fmt.Println(kept)
}

// hearAndPrint connects, and prints what the host says unasked.
func hearAndPrint(socket string) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	io.Copy(os.Stdout, c)
}

func rawCall(socket, method, path, body string) (answer, error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) },
	}}
	req, err := http.NewRequest(method, "http://x"+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{Status: resp.StatusCode, Body: string(b)}, err
}

// helper runs this test binary as a user; its file is reached through /proc, which asks nothing of
// the directories above it.
func helper(t *testing.T, uid int, mode string, args ...string) []byte {
	t.Helper()
	kernfstest.NeedRoot(t)
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = []string{"API_TEST_HELPER=" + mode, "GORACE=atexit_sleep_ms=0"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helper as uid %d: %v: %s", uid, err, stderr.String())
	}
	return out
}

// callAs makes a call from a process of its own that belongs to uid.
func callAs(t *testing.T, uid int, socket, method, path, body string) answer {
	t.Helper()
	var a answer
	must.NoError(t, json.Unmarshal(helper(t, uid, "call", socket, method, path, body), &a))
	return a
}

// backend is a host with a few jobs. Its processes are those of this machine.
type backend struct {
	handle func(context.Context, *hostapi.Request) (*hostapi.Outcome, error)
	jobs   []Job
	procfs *kernfs.FS
	broken error  // of the reports
	unread bool   // jobs that are not there cannot be read
	member string // the job that every process is in
	now    error  // what every process is when it is asked for again

	mu     sync.Mutex
	events []*hostapi.Request
}

func (b *backend) Handle(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	b.mu.Lock()
	b.events = append(b.events, req)
	b.mu.Unlock()
	if b.handle != nil {
		return b.handle(ctx, req)
	}
	return &hostapi.Outcome{}, nil
}

// HandleUser is Handle; what the context says the test finds out.
func (b *backend) HandleUser(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return b.Handle(ctx, req)
}

func (b *backend) seen() []*hostapi.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.events
}

func (b *backend) Jobs(context.Context) ([]Job, error) { return b.jobs, nil }

func (b *backend) Job(_ context.Context, id string) (Job, error) {
	for _, j := range b.jobs {
		if j.Job.ID == id {
			return j, nil
		}
	}
	if b.unread {
		return Job{}, errors.New("disk: /secret")
	}
	return Job{}, fmt.Errorf("job %s: %w", id, ErrNotFound)
}

func (b *backend) Report(_ context.Context, id string, may func(*hostapi.Job) bool) (json.RawMessage, error) {
	for _, j := range b.jobs {
		if j.Job.ID == id && may(j.Job) {
			return json.RawMessage(`{"job":"` + id + `"}`), nil
		}
	}
	return nil, fmt.Errorf("report of job %s: %w", id, ErrNotFound)
}

// Find has a report of each of the jobs, or of one user's; broken is an error after them.
func (b *backend) Find(_ context.Context, f report.Filter, may func(uid int) bool,
	yield func(json.RawMessage) bool) error {
	for _, j := range b.jobs {
		if f.User != "" && f.User != j.Job.Owner.User {
			continue
		}
		if may(j.Job.Owner.UID) && !yield(json.RawMessage(`{"job":"`+j.Job.ID+`"}`)) {
			return nil
		}
	}
	return b.broken
}

func (b *backend) Node(context.Context) (NodeInfo, error) {
	return NodeInfo{Version: "1", PID: os.Getpid(), Node: "n1", Mode: "hybrid",
		Hooks: []HookInfo{{Name: "cgroup", State: "running"}}}, nil
}

func (b *backend) Reload(context.Context) error             { return nil }
func (b *backend) NewJobID(context.Context) (string, error) { return "7.node", nil }

func (b *backend) Process(pid int) (Process, error) {
	p, err := proc.Read(b.procfs, pid)
	if err != nil {
		return Process{}, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return Process{UID: p.UID, StartTime: p.StartTime}, nil
}

func (b *backend) Number(caller, pid int) (int, error) {
	n, err := proc.Translate(b.procfs, caller, pid)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return n, nil
}

func (b *backend) Check(id hostapi.ProcessID) error {
	err := b.now
	if err == nil {
		err = proc.Check(b.procfs, id)
	}
	return err
}

// JobOf finds every process in b.member.
func (b *backend) JobOf(_ context.Context, pid int) (Job, error) {
	for _, j := range b.jobs {
		if j.Job.ID == b.member {
			return j, nil
		}
	}
	return Job{}, fmt.Errorf("%w: pid %d", ErrNotFound, pid)
}

func job(id string, uid int, phase ...string) Job {
	j := Job{Job: &hostapi.Job{ID: id, Owner: hostapi.Owner{User: "u" + strconv.Itoa(uid), UID: uid}}, Phase: "running"}
	if len(phase) > 0 {
		j.Phase = "exiting"
	}
	return j
}

// socketDir is a directory that every user may enter.
func socketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hhtest_api_")
	must.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// serve serves b until the test is over and returns the socket.
func serve(t testing.TB, b *backend, change ...func(*Server)) string {
	t.Helper()
	var err error
	if b.procfs, err = kernfs.Open("/proc"); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(socketDir(t), "run", "s")
	l, err := Listen(socket)
	must.NoError(t, err)
	s := NewServer(b, b, b, b)
	s.Reports, s.Meter, s.MoM = b, &gauge{}, &pbsMoM{}
	s.ErrorLog = log.New(io.Discard, "", 0)
	for _, c := range change {
		c(s)
	}
	serveOn(t, s, l)
	return socket
}

func dial(t testing.TB, socket string) *Client {
	t.Helper()
	c, err := Dial(socket)
	must.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// serveOn has s serve l until the test is over.
func serveOn(t testing.TB, s *Server, l net.Listener) {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}
