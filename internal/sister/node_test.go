package sister

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/ledger"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		plugintest.RemovePrograms()
		os.Exit(status)
	}))
}

// node is all that a host needs, in a directory of its own.
type node struct {
	t       testing.TB
	dir     string
	hooks   []plugin.Hook
	store   *jobstate.Store
	ledger  *ledger.Ledger
	log     *plugintest.Log
	options func(*host.Options)
}

func newNode(t testing.TB) *node {
	t.Helper()
	// Not t.TempDir: a socket's path has a limit, and test names are long.
	dir, err := os.MkdirTemp("", "hh-")
	must.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	store, err := jobstate.Open(filepath.Join(dir, "jobs"), func(err error) { t.Error(err) })
	must.NoError(t, err)
	return &node{
		t: t, dir: dir, store: store,
		ledger: ledger.Open(filepath.Join(dir, "ledger.jsonl")),
		log:    plugintest.NewLog(t),
	}
}

// hook adds a program of testdata/hooks with its configuration.
func (n *node) hook(name, program, config string, order int) {
	a := plugin.DefaultAttributes()
	a.Order, a.Alarm = order, 300
	n.hooks = append(n.hooks, plugin.Hook{
		Name:       name,
		Attributes: a,
		Program:    filepath.Join(plugintest.Programs(), program),
		ConfigData: []byte(config),
		BuiltIn:    true,
	})
}

// jobs returns the node's jobs as they are on other hosts.
func (n *node) jobs(name string, others Others) *Jobs {
	return &Jobs{Node: name, Others: others, Store: n.store, Log: n.log.Entry()}
}

// self is a process that is not there, for a host that is this test.
var self = hostapi.ProcessID{PID: 4_000_001, StartTime: 1, BootID: "test"}

// open opens a host, which is closed at the end of the test.
func (n *node) open() *host.Host {
	n.t.Helper()
	o := host.Options{
		Node: "n1", Self: self, Store: n.store, Ledger: n.ledger, Processes: nobodyLives{},
		Registry: &plugin.Registry{
			Dir:              filepath.Join(n.dir, "hooks.d"),
			ProgramDir:       filepath.Join(n.dir, "programs"),
			BuiltIn:          n.hooks,
			AllowUnsafePaths: true,
		},
		Log: n.log.Entry(), RuntimeDir: filepath.Join(n.dir, "run"), StartTimeout: 5 * time.Minute,
	}
	if n.options != nil {
		n.options(&o)
	}
	h, err := host.Open(o)
	must.NoError(n.t, err)
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
	n.t.Helper()
	return plugintest.Lines(n.t, filepath.Join(n.dir, name))
}

func (n *node) record(id string) *jobstate.Record {
	n.t.Helper()
	return n.store.Get(id)
}

// change changes the record of a job.
func (n *node) change(id string, fn func(*jobstate.Record) *jobstate.Record) {
	n.t.Helper()
	err := n.store.Update(id, func(rec *jobstate.Record) (*jobstate.Record, error) { return fn(rec), nil })
	must.NoError(n.t, err)
}

// reports returns the jobs of the ledger in order.
func (n *node) reports() (jobs []string) {
	n.t.Helper()
	err := n.ledger.All(context.Background(), ledger.Query{}, func(e ledger.Entry) bool {
		jobs = append(jobs, e.Job)
		return true
	})
	must.NoError(n.t, err)
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
