package api

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/must"
)

// gauge is a Meter that notes which jobs were read.
type gauge struct{ read []string }

func (g *gauge) Present(job string) (Present, error) {
	g.read = append(g.read, job)
	limit := int64(256 << 30)
	return Present{MemLimitBytes: &limit}, nil
}

func (g *gauge) ProcessesOf(job string) ([]JobProcess, int, error) {
	if job == "3.srv" {
		return nil, 0, fmt.Errorf("no cgroup: %w", ErrNotFound)
	}
	return []JobProcess{{PID: 7, Comm: "of " + job}}, 1, nil
}

func (g *gauge) Capacity() (Capacity, error) { return Capacity{CPUs: 4}, nil }

func TestPresentUseIsReadOfVisibleJobsAlone(t *testing.T) {
	g := &gauge{}
	own := job("2.srv", nobody)
	limit := int64(1 << 30)
	own.Hosts = map[string]*hostapi.HostUsage{"n1": {NCPUs: 3, MemLimitBytes: &limit}}
	b := &backend{jobs: []Job{job("1.srv", os.Getuid()), own}}
	socket := serve(t, b, func(s *Server) { s.Meter, s.Host = g, "n1" })
	got := callAs(t, nobody, socket, "GET", "/v1/present", "")
	var l PresentJobs
	must.NoError(t, json.Unmarshal([]byte(got.Body), &l))
	if len(l.Jobs) != 1 || l.Jobs[0].ID != "2.srv" || l.Jobs[0].NCPUs != 3 || l.Node != "n1" || l.Capacity.CPUs != 4 {
		t.Errorf("%+v", got)
	}
	if *l.Jobs[0].UsesHere.MemLimitBytes != limit {
		t.Errorf("the limit is the kernel's %d, want the job's", *l.Jobs[0].UsesHere.MemLimitBytes)
	}
	if strings.Join(g.read, " ") != "2.srv" {
		t.Errorf("read: %v", g.read)
	}
	all, err := dial(t, socket).Present(t.Context())
	if err != nil || os.Getuid() == 0 && len(all.Jobs) != 2 {
		t.Errorf("root sees %+v, %v", all, err)
	}
}

func TestProcessesOfAJobAreItsOwnersAndRoots(t *testing.T) {
	b := &backend{jobs: []Job{job("1.srv", 0), job("2.srv", nobody), job("3.srv", nobody)}}
	socket := serve(t, b, func(s *Server) { s.Meter = &gauge{} })
	for path, want := range map[string]int{
		"/v1/jobs/2.srv/processes": 200, "/v1/jobs/1.srv/processes": 404, "/v1/jobs/3.srv/processes": 404,
		"/v1/jobs/4.srv/processes": 404, "/v1/jobs/%2e%2e/processes": 400,
	} {
		if got := callAs(t, nobody, socket, "GET", path, ""); got.Status != want {
			t.Errorf("%s: %+v, want status %d", path, got, want)
		}
	}
	l, err := dial(t, socket).ProcessesOf(t.Context(), "2.srv")
	if err != nil && os.Getuid() == 0 || err == nil && (l.All != 1 || l.Processes[0].Comm != "of 2.srv") {
		t.Errorf("root: %+v, %v", l, err)
	}
}
