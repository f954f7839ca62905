package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/sister"
)

const aRun, anotherRun = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"

// otherHost is the hookhost of another host, as far as a fleet sees it.
type otherHost struct {
	api.Sisters
	otherJobs
	events func(*hostapi.Request) (*hostapi.Outcome, error)
	job    func(id string) (api.Job, error)
	report func(id string) (json.RawMessage, error)
}

// otherJobs is api.Jobs under a name that is not one of its methods.
type otherJobs interface{ api.Jobs }

func (h *otherHost) MayHead(string) bool { return true }
func (h *otherHost) AllowRoot() bool     { return true }
func (h *otherHost) Handle(_ context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return h.events(req)
}
func (h *otherHost) HandleUser(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return h.Handle(ctx, req)
}
func (h *otherHost) Job(_ context.Context, id string) (api.Job, error) { return h.job(id) }
func (h *otherHost) Report(_ context.Context, id string, _ func(*hostapi.Job) bool) (json.RawMessage, error) {
	return h.report(id)
}

// newTestFleet returns n1's way to other hosts that are served here, and to n9, where nobody answers.
func newTestFleet(t *testing.T, hosts map[string]*otherHost) *sister.Fleet {
	t.Helper()
	dir := t.TempDir()
	if err := makeCertificates(io.Discard, dir, append(slices.Sorted(maps.Keys(hosts)), "n1"), false, time.Now()); err != nil {
		t.Fatal(err)
	}
	identity := func(name string) *api.Identity {
		id, err := api.LoadIdentity(api.TLSFiles{CA: dir + "/ca.crt", Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key")})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	s := config.DefaultSister()
	s.Hosts = map[string]string{"n9": nobody.Addr().String()}
	for name, h := range hosts {
		l, err := api.ListenTLS("127.0.0.1:0", identity(name), nil)
		if err != nil {
			t.Fatal(err)
		}
		server := api.NewServer(h, h, nil, nil)
		server.Host, server.Sisters, server.ErrorLog = name, h, log.New(io.Discard, "", 0)
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		t.Cleanup(func() {
			if err := errors.Join(server.Shutdown(context.Background()), <-served); err != nil {
				t.Error(err)
			}
		})
		s.Hosts[name] = l.Addr().String()
	}
	f := newFleet(s, identity("n1"))
	t.Cleanup(f.Close)
	return f
}

func quiet() (*logrus.Entry, func() []string) {
	var lines lockedLines
	l := logrus.New()
	l.SetOutput(&lines)
	return logrus.NewEntry(l), lines.all
}

type lockedLines struct {
	mu   sync.Mutex
	list []string
}

func (l *lockedLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, string(b))
	return len(b), nil
}

func (l *lockedLines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func TestSistersUsage(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	f := newTestFleet(t, map[string]*otherHost{
		"n2": {report: func(string) (json.RawMessage, error) {
			return json.RawMessage(`{"job":"1.n1","hosts":{"n1":{"ncpus":9},"n2":{"ncpus":2,"cput_seconds":1.5}}}`), nil
		}},
		"n3": {report: func(string) (json.RawMessage, error) { return json.RawMessage(`{"job":"1.n1"}`), nil }},
		"n4": {report: func(string) (json.RawMessage, error) { return nil, api.ErrNotFound }},
	})
	told := (&sisters{fleet: f}).Usage(t.Context(), "1.n1", []string{"n2", "n3", "n4", "n9"})
	if u := told["n2"]; u.Err != nil || u.Usage.NCPUs != 2 || *u.Usage.CPUTSeconds != 1.5 {
		t.Errorf("n2: %+v", u)
	}
	if u := told["n3"]; u.Err != nil || u.Usage != nil {
		t.Errorf("n3: %+v", u)
	}
	for name, want := range map[string]string{"n4": "n4: job 1.n1: not found", "n9": "n9: call host: connect to"} {
		if u := told[name]; u.Err == nil || !strings.HasPrefix(u.Err.Error(), want) || strings.Contains(u.Err.Error(), "may have been") {
			t.Errorf("%s: %+v", name, u)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if u := (&sisters{fleet: f}).Usage(over, "1.n1", []string{"n2"})["n2"]; u.Err == nil {
		t.Errorf("not called: %+v", u)
	}
}

// A host that has no certificates to show tells nobody anything, and keeps what it owes.
func TestSistersWithoutFleet(t *testing.T) {
	s := &sisters{broken: errors.New("no key"), debts: sister.OpenDebts(t.TempDir()), owed: func() {}}
	if a := s.Send(t.Context(), nil, []string{"n2"})["n2"]; a.Err == nil || a.Err.Error() != "n2: no key" || a.Doubt {
		t.Errorf("Send: %+v", a)
	}
	if u := s.Usage(t.Context(), "1.n1", []string{"n2"})["n2"]; u.Err == nil || u.Err.Error() != "n2: no key" {
		t.Errorf("Usage: %+v", u)
	}
	if err := s.Owe("n2", "1.n1", aRun, hostapi.EventEnd); err != nil {
		t.Error(err)
	}
	if list, err := s.debts.List(); err != nil || len(list) != 1 || list[0].Since.IsZero() {
		t.Errorf("debts %v, %v", list, err)
	}
}

func TestPay(t *testing.T) {
	var mu sync.Mutex
	var heard []string
	down, refused := true, false
	take := func(name string) func(*hostapi.Request) (*hostapi.Outcome, error) {
		return func(req *hostapi.Request) (*hostapi.Outcome, error) {
			mu.Lock()
			defer mu.Unlock()
			if name == "n3" && down {
				refused = true
				return nil, hostapi.Errorf(hostapi.KindNode, "its disk is full")
			}
			heard = append(heard, fmt.Sprintf("%s %s %s %s", name, strings.TrimPrefix(string(req.Event), "execjob_"), req.Job.ID, req.Run[:4]))
			return &hostapi.Outcome{Reject: req.Job.ID == "2.n1", Message: "busy cgroup"}, nil
		}
	}
	f := newTestFleet(t, map[string]*otherHost{"n2": {events: take("n2")}, "n3": {events: take("n3")}})
	debts := sister.OpenDebts(filepath.Join(t.TempDir(), "debts"))
	owe := func(host, job, run string, e hostapi.Event) {
		if err := debts.Add(sister.Debt{Host: host, Job: job, Run: run, Event: e, Since: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	entry, lines := quiet()
	p := newPayer(debts, f, 20*time.Millisecond, entry)
	if p.pay(t.Context()) {
		t.Error("there is something left of nothing")
	}
	owe("n2", "1.n1", aRun, hostapi.EventEnd)
	owe("n2", "2.n1", anotherRun, hostapi.EventAbort)
	owe("n3", "1.n1", aRun, hostapi.EventEnd)
	owe("n9", "1.n1", aRun, hostapi.EventEnd)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { p.run(ctx) })
	left := func() string {
		list, err := debts.List()
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, d := range list {
			text += d.Host + ":" + d.Job + " "
		}
		return text
	}
	soon(t, "n2 is told, and n3 does not take it", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return refused && left() == "n3:1.n1 n9:1.n1 "
	})
	mu.Lock()
	down = false
	mu.Unlock()
	soon(t, "n3 is told once it answers", func() bool { return left() == "n9:1.n1 " })
	owe("n2", "3.n1", aRun, hostapi.EventAbort)
	p.owed()
	soon(t, "a new debt is paid", func() bool { return left() == "n9:1.n1 " })
	cancel()
	done.Wait()
	want := []string{"n2 abort 2.n1 fedc", "n2 abort 3.n1 0123", "n2 end 1.n1 0123", "n2 epilogue 1.n1 0123", "n3 end 1.n1 0123", "n3 epilogue 1.n1 0123"}
	if slices.Sort(heard); !slices.Equal(heard, want) {
		t.Errorf("heard %q, want each once: %q", heard, want)
	}
	said := map[string]int{}
	for _, line := range lines() {
		for _, text := range []string{"host=n9", "has still to be told", "has been told", "busy cgroup", "its disk is full"} {
			if strings.Contains(line, text) {
				said[text]++
			}
		}
	}
	if want := map[string]int{"host=n9": 1, "has still to be told": 2, "has been told": 4, "busy cgroup": 1, "its disk is full": 1}; !maps.Equal(said, want) {
		t.Errorf("said %v, want %v\n%s", said, want, strings.Join(lines(), ""))
	}
}

func TestAskHeads(t *testing.T) {
	jobs := map[string]api.Job{ // of n2, as it knows them
		"7.n2": {Job: &hostapi.Job{ID: "7.n2"}, Run: aRun},
		"8.n2": {Job: &hostapi.Job{ID: "8.n2"}, Run: anotherRun},
	}
	for _, j := range jobs {
		j.Job.ExecVnode = "(n2:ncpus=1)+(n1:ncpus=1)"
	}
	f := newTestFleet(t, map[string]*otherHost{
		"n2": {job: func(id string) (api.Job, error) {
			if j, there := jobs[id]; there {
				return j, nil
			}
			return api.Job{}, api.ErrNotFound
		}},
		"n3": {job: func(string) (api.Job, error) { return api.Job{}, errors.New("the database is damaged") }},
	})
	store, err := jobstate.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put := func(id, head string) {
		err := store.Update(t.Context(), id, func(*jobstate.Record) (*jobstate.Record, error) {
			r := &jobstate.Record{Job: &hostapi.Job{ID: id}, Phase: jobstate.PhaseRunning, Head: head}
			if head != "" {
				r.Run = aRun
			}
			return r, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var ended []string
	entry, lines := quiet()
	o := newOfHeads(store, f, func(ctx context.Context, id, run, why string) error {
		mu.Lock()
		ended = append(ended, fmt.Sprint(id, " ", run == aRun, " ", why))
		mu.Unlock()
		return store.Update(ctx, id, func(*jobstate.Record) (*jobstate.Record, error) { return nil, nil })
	}, time.Hour, entry)
	put("1.n1", "")
	if o.ask(t.Context()) {
		t.Error("it goes on asking for jobs of its own")
	}
	for id, head := range map[string]string{"7.n2": "n2", "8.n2": "n2", "9.n2": "n2", "1.n3": "n3", "1.n9": "n9", "2.n9": "n9"} {
		put(id, head)
	}
	for range 3 { // nothing is said twice, and nobody is believed but who knows
		if !o.ask(t.Context()) {
			t.Error("it asks no more")
		}
	}
	slices.Sort(ended)
	if want := []string{"8.n2 true " + lostTouch, "9.n2 true " + lostTouch}; !slices.Equal(ended, want) {
		t.Errorf("ended %q, want %q", ended, want)
	}
	text := strings.Join(lines(), "")
	if strings.Count(text, "\n") != 2 || !strings.Contains(text, "host=n9") || !strings.Contains(text, "2 jobs that it has begun here cannot be asked about") ||
		!strings.Contains(text, "host=n3") {
		t.Errorf("said:\n%s", text)
	}
}

func TestHourly(t *testing.T) {
	var h hourly
	now := time.Now()
	if !h.may("n2", now) || h.may("n2", now.Add(59*time.Minute)) || !h.may("n3", now) || !h.may("n2", now.Add(time.Hour)) {
		t.Error("not once an hour")
	}
	if h.forget("n2"); !h.may("n2", now.Add(time.Hour)) {
		t.Error("not after it was forgotten")
	}
}
