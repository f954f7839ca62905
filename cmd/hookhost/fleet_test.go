package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/sister"
)

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

// A host that has no certificates to show tells nobody anything.
func TestSistersWithoutFleet(t *testing.T) {
	s := &sisters{broken: errors.New("no key")}
	if a := s.Send(t.Context(), nil, []string{"n2"})["n2"]; a.Err == nil || a.Err.Error() != "n2: no key" || a.Doubt {
		t.Errorf("Send: %+v", a)
	}
	if u := s.Usage(t.Context(), "1.n1", []string{"n2"})["n2"]; u.Err == nil || u.Err.Error() != "n2: no key" {
		t.Errorf("Usage: %+v", u)
	}
}
