package host

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/plugin/plugintest"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/reports"
	"github.com/hookhost/hookhost/internal/series"
)

// victimEnv makes this test program a host that waits to be killed, see kill_test.go.
const victimEnv = "HOOKHOST_TEST_VICTIM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimEnv); dir != "" {
		victim(dir)
	}
	if pid := os.Getenv(tracerEnv); pid != "" {
		tracer(pid)
	}
	status := m.Run()
	plugintest.RemovePrograms()
	os.Exit(status)
}

// self is a process that is not there, for a host that is this test.
var self = hostapi.ProcessID{PID: 4_000_001, StartTime: 1, BootID: "test"}

// node is all that a host needs, in a directory of its own.
type node struct {
	t        testing.TB
	dir      string
	registry *plugin.Registry
	store    *jobstate.Store
	finished *reports.Store
	procs    *processes
	removed  *remover
	log      *plugintest.Log
	options  func(*Options)
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
	n := &node{
		t: t, dir: dir, store: store, finished: finishedIn(t, dir),
		registry: &plugin.Registry{Dir: filepath.Join(dir, "hooks.d"), ProgramDir: filepath.Join(dir, "programs"),
			AllowUnsafePaths: true},
		procs: &processes{}, removed: &remover{}, log: plugintest.NewLog(t),
	}
	return n
}

// hook registers a hook: a program of testdata/hooks with its configuration. Assignments are those
// of `hook set`.
func (n *node) hook(name, program, config string, assignments ...string) {
	n.t.Helper()
	plugintest.Register(n.t, n.registry.Dir, name, program, config)
	if len(assignments) > 0 {
		if err := n.registry.Set(name, assignments...); err != nil {
			n.t.Fatal(err)
		}
	}
}

// builtIn registers a hook as one that comes with hookhost. It gets its events after those of order
// 1.
func (n *node) builtIn(name, config string, acts ...plugin.FailAction) {
	a := plugin.DefaultAttributes()
	a.Type, a.Order, a.FailAction = plugin.TypePBS, 100, acts
	n.registry.BuiltIn = append(n.registry.BuiltIn, plugin.Hook{Name: name, Attributes: a, BuiltIn: true,
		Program: filepath.Join(plugintest.Programs(), "misbehave"), ConfigData: []byte(config)})
}

// open opens a host, which is closed at the end of the test.
func (n *node) open() *Host {
	n.t.Helper()
	o := Options{
		Node: "n1", Self: self, Registry: n.registry, Store: n.store, Reports: n.finished, Processes: n.procs,
		Log: n.log.Entry(), RuntimeDir: filepath.Join(n.dir, "run"), Fallback: n.removed, StartTimeout: time.Minute,
		Populated: func(string) (bool, error) { return false, nil },
		Observer:  &tally{}, Ended: func() {}, SiteAdvice: noAdvice,
		Finished:    func(*report.Report, series.Job) {},
		SisterUsage: func(*jobstate.Record, []string) map[string]SisterUsage { return nil },
		PBSHas:      func(*hostapi.Job, string) (bool, error) { return true, nil },
		PBSStarts:   func(*hostapi.Job, string, hostapi.ProcessID) (bool, error) { return true, nil },
	}
	if n.options != nil {
		n.options(&o)
	}
	h, err := Open(o)
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

// calls returns the lines that misbehave wrote to the file name.
func (n *node) calls(name string) []string {
	n.t.Helper()
	return plugintest.Lines(n.t, filepath.Join(n.dir, name))
}

func (n *node) record(id string) *jobstate.Record {
	n.t.Helper()
	return n.store.Get(id)
}

// finishedIn returns the reports of finished jobs below a directory.
func finishedIn(t testing.TB, dir string) *reports.Store {
	bounds := func() reports.Bounds { return reports.Bounds{Age: 24 * time.Hour, Size: 1 << 30} }
	s := reports.Open(filepath.Join(dir, "reports"), filepath.Join(dir, "waiting"), bounds,
		func(err error) { t.Error(err) })
	t.Cleanup(s.Close)
	return s
}

// reportOf returns the JSON of a job's newest report, "" if there is none.
func (n *node) reportOf(id string) string {
	n.t.Helper()
	r, err := n.finished.Last(context.Background(), id, func(int) bool { return true })
	if err != nil {
		n.t.Fatal(err)
	}
	if r == nil {
		return ""
	}
	text, err := json.Marshal(r)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}

// reports returns the jobs that have reports, in the order of their ends.
func (n *node) reports() []string {
	n.t.Helper()
	var jobs []string
	if err := n.finished.All(context.Background(), reports.Query{May: func(int) bool { return true }},
		func(text json.RawMessage) bool {
			r, err := report.FromArchive(text)
			if err != nil {
				n.t.Fatal(err)
			}
			jobs = append(jobs, r.Job)
			return true
		}); err != nil {
		n.t.Fatal(err)
	}
	return jobs
}

func requestOf(e hostapi.Event, id string) *hostapi.Request {
	r := &hostapi.Request{Event: e}
	if e.ForJob() {
		r.Job = &hostapi.Job{ID: id, Owner: hostapi.Owner{User: "root", UID: 0, GID: 0}, MotherSuperior: true}
	}
	if e == hostapi.EventAttach {
		r.PID = 4_000_002
	}
	return r
}

// must carries out an event that has to be accepted.
func must(t testing.TB, h *Host, e hostapi.Event, id string) *Verdict {
	t.Helper()
	v := judge(t, h, e, id)
	if v.Reject {
		t.Fatalf("%s of job %s rejected: %s", e, id, v.Message)
	}
	return v
}

func judge(t testing.TB, h *Host, e hostapi.Event, id string) *Verdict {
	t.Helper()
	v, err := h.judge(t.Context(), requestOf(e, id), caller{outside: true})
	if err != nil {
		t.Fatalf("%s of job %s: %v", e, id, err)
	}
	return v
}

// processes is what the host is told of other processes: those in alive are, until kill.
type processes struct {
	mu    sync.Mutex
	alive map[hostapi.ProcessID]chan struct{}
}

func (p *processes) add(id hostapi.ProcessID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	put(&p.alive, id, make(chan struct{}))
}

func (p *processes) kill(id hostapi.ProcessID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.alive[id])
	delete(p.alive, id)
}

func (p *processes) Alive(id hostapi.ProcessID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.alive[id] != nil
}

func (p *processes) Wait(ctx context.Context, id hostapi.ProcessID) error {
	p.mu.Lock()
	dead := p.alive[id]
	p.mu.Unlock()
	if dead == nil {
		return nil
	}
	select {
	case <-dead:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// remover notes which jobs the host removed itself.
type remover struct {
	mu   sync.Mutex
	jobs []string
}

func (r *remover) RemoveJob(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs = append(r.jobs, id)
	return nil
}

func (r *remover) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.jobs)
}

// noAdvice is a site's that gives none.
func noAdvice() []report.Rule { return nil }
