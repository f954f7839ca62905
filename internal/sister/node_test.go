package sister

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/ledger"
)

// programs returns where the hooks of testdata/hooks lie, built when the first test asks.
var programs = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "hhtest-sister-")
	if err != nil {
		panic(err)
	}
	built = dir
	build := exec.Command("go", "build", "-o", dir+"/", "../../testdata/hooks/misbehave", "../../testdata/hooks/sister")
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("build hooks: %v\n%s", err, out))
	}
	return dir
})

var built string // what programs made, to be removed

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		if built != "" {
			os.RemoveAll(built)
		}
		os.Exit(status)
	}))
}

// node is all that a host needs, in a directory of its own.
type node struct {
	t       testing.TB
	dir     string
	hooks   []host.Hook
	store   *jobstate.Store
	ledger  *ledger.Ledger
	log     *logBuffer
	options func(*host.Options)
}

func newNode(t testing.TB) *node {
	t.Helper()
	// Not t.TempDir: a socket's path has a limit, and test names are long.
	dir, err := os.MkdirTemp("", "hh-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	store, err := jobstate.Open(filepath.Join(dir, "jobs"), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, dir: dir, store: store, ledger: ledger.Open(filepath.Join(dir, "ledger.jsonl")), log: &logBuffer{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the host:\n%s", n.log)
		}
	})
	return n
}

// hook adds a program of testdata/hooks with its configuration.
func (n *node) hook(name, program, config string, order int) {
	a := host.DefaultAttributes()
	a.Order, a.Alarm = order, 300
	n.hooks = append(n.hooks, host.Hook{
		Name: name, Attributes: a, Program: filepath.Join(programs(), program), ConfigData: []byte(config), BuiltIn: true,
	})
}

// jobs returns the node's jobs as they are on other hosts.
func (n *node) jobs(name string, others Others) *Jobs {
	return &Jobs{Node: name, Others: others, Store: n.store, Log: n.entry()}
}

func (n *node) entry() *logrus.Entry {
	log := logrus.New()
	log.SetOutput(n.log)
	log.SetLevel(logrus.DebugLevel)
	log.SetFormatter(&logrus.JSONFormatter{DisableTimestamp: true})
	return logrus.NewEntry(log)
}

// self is a process that is not there, for a host that is this test.
var self = hostapi.ProcessID{PID: 4_000_001, StartTime: 1, BootID: "test"}

// open opens a host, which is closed at the end of the test.
func (n *node) open() *host.Host {
	n.t.Helper()
	o := host.Options{
		Node: "n1", Self: self, Store: n.store, Ledger: n.ledger, Processes: nobodyLives{},
		Registry: &host.Registry{
			Dir: filepath.Join(n.dir, "hooks.d"), ProgramDir: filepath.Join(n.dir, "programs"), BuiltIn: n.hooks, AllowUnsafePaths: true,
		},
		Log: n.entry(), RuntimeDir: filepath.Join(n.dir, "run"), StartTimeout: 5 * time.Minute,
	}
	if n.options != nil {
		n.options(&o)
	}
	h, err := host.Open(o)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			n.t.Error(err)
		}
	})
	return h
}

// calls returns the lines that a hook wrote to the file name.
func (n *node) calls(name string) []string {
	b, err := os.ReadFile(filepath.Join(n.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.t.Fatal(err)
	}
	return strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' })
}

func (n *node) record(id string) *jobstate.Record {
	n.t.Helper()
	return n.store.Get(id)
}

// change changes the record of a job.
func (n *node) change(id string, fn func(*jobstate.Record) *jobstate.Record) {
	n.t.Helper()
	err := n.store.Update(id, func(rec *jobstate.Record) (*jobstate.Record, error) { return fn(rec), nil })
	if err != nil {
		n.t.Fatal(err)
	}
}

// reports returns the jobs of the ledger in order.
func (n *node) reports() (jobs []string) {
	n.t.Helper()
	all := func(int) bool { return true }
	err := n.ledger.All(context.Background(), all, func(e ledger.Entry) bool { jobs = append(jobs, e.Job); return true })
	if err != nil {
		n.t.Fatal(err)
	}
	return jobs
}

func event(e hostapi.Event, id string) *hostapi.Request {
	return &hostapi.Request{Event: e, Job: &hostapi.Job{
		ID: id, Owner: hostapi.Owner{User: "root", UID: 0, GID: 0}, MotherSuperior: true,
	}}
}

// from makes an event that another host sent.
func from(head, run string, e hostapi.Event, id string) *hostapi.Request {
	r := event(e, id)
	r.Head, r.Run = head, run
	r.Job.MotherSuperior = false
	return r
}

// nobodyLives knows no process.
type nobodyLives struct{}

func (nobodyLives) Alive(hostapi.ProcessID) bool                  { return false }
func (nobodyLives) Wait(context.Context, hostapi.ProcessID) error { return nil }

// logBuffer is the host's log: JSON, one entry a line.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// has is true when the message of an entry contains text.
func (l *logBuffer) has(text string) bool {
	for line := range strings.Lines(l.String()) {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) == nil && strings.Contains(fmt.Sprint(entry["msg"]), text) {
			return true
		}
	}
	return false
}

// eventually waits until ok is true. It is for what comes from another process and cannot be waited for otherwise.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: still not so after a minute", what)
		}
	}
}
