package metrics

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/must"
)

// node is a host with jobs. entered and released, if set, hold up a scrape.
type node struct {
	jobs              []api.Job
	names             []string // nil: all
	lists, reads      atomic.Int64
	entered, released chan struct{}
	err               error
}

func (n *node) Jobs(context.Context) ([]api.Job, error) {
	n.lists.Add(1)
	if n.entered != nil {
		n.entered <- struct{}{}
		<-n.released
	}
	return n.jobs, n.err
}

func (n *node) Present(job string) (api.Present, error) {
	n.reads.Add(1)
	if job == "3.srv" {
		return api.Present{}, api.ErrNotFound // it has just ended
	}
	return api.Present{
		CPUSeconds: new(12.5), UserSeconds: new(10.25), SystemSeconds: new(2.25),
		MemBytes: new(int64(3 << 20)), ShmemBytes: new(int64(1 << 20)), CacheBytes: new(int64(4 << 20)),
		ChargedBytes: new(int64(9 << 20)), OOMKills: new(int64(2)), MemFailures: new(int64(5)),
		ReadBytes: new(int64(4096)), WriteBytes: new(int64(8192)), Pids: new(int64(7)),
	}, nil
}

func newMetrics(n *node) *Metrics {
	counts := Counts{
		Counts:         host.Counts{OOMKills: 5, Adopted: 6},
		Hooks:          []Hook{{Name: "cgroup", Up: true, Restarts: 1, Crashes: 1}, {Name: "mpi"}},
		DoctorOK:       new(true),
		ReportsWritten: 8, ReportFailures: 9, Refused: map[string]int64{"denied": 4},
	}
	names := n.names
	if names == nil {
		names = Sets()
	}
	return New(Options{
		Version: "v1", Node: "n1", Jobs: n, Meter: n, Counts: func() Counts { return counts },
		Names:    func() []string { return names },
		ErrorLog: log.New(io.Discard, "", 0),
	})
}

func someJobs() []api.Job {
	left, limit, used, peak, joules := 90.5, int64(64<<20), 25.0, int64(1<<30), 1500.0
	head := &hostapi.Job{ID: "1[2].srv", RunCount: 3, MotherSuperior: true, Queue: "wörk\n\"q\"",
		Owner: hostapi.Owner{User: "ada", UID: 1000}}
	return []api.Job{
		{Job: head, Phase: hostapi.PhaseRunning, Left: &left, Hosts: map[string]*hostapi.HostUsage{
			"n1": {NCPUs: 2, MemLimitBytes: &limit, Devices: []hostapi.DeviceUsage{
				{ID: "GPU-1", Resource: "ngpus", PCI: "0000:07:00.0",
					UtilizationPercent: &used, MemPeakBytes: &peak, EnergyJoules: &joules},
				{ID: "MIG-2", Resource: "ngpus"}, {ID: "/dev/fpga0", Resource: "fpga"}}},
			"n2": {NCPUs: 99},
		}},
		{Job: &hostapi.Job{ID: "2.srv", Owner: hostapi.Owner{User: "eve"}}, Phase: hostapi.PhaseRunning},
		{Job: &hostapi.Job{ID: "3.srv"}, Phase: hostapi.PhaseExiting},
	}
}

func scrape(t *testing.T, h http.Handler, accept string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestScrapeHasWhatIsKnownAndNothingElse(t *testing.T) {
	m := newMetrics(&node{jobs: someJobs()})
	m.Event(hostapi.EventBegin, host.Accepted, 3*time.Millisecond)
	m.Event(hostapi.EventBegin, host.Rejected, 70*time.Second)
	m.Call("cgroup", host.Failed, 2*time.Millisecond)
	text := scrape(t, m.Handler(), "")
	var own []string
	for line := range strings.Lines(text) {
		if ofJobsOrOurs.MatchString(line) && !strings.Contains(line, "_bucket{") {
			own = append(own, strings.TrimSpace(line))
		}
	}
	golden, err := os.ReadFile("testdata/scrape.golden")
	must.NoError(t, err)
	got := strings.Join(own, "\n") + "\n"
	got = strings.Replace(got, `goversion="`+goVersion(t, text)+`"`, `goversion="GO"`, 1)
	must.Equal(t, "the scrape", string(golden), got)
	for _, line := range []string{
		`hookhost_event_duration_seconds_bucket{event="execjob_begin",le="0.0025"} 0`,
		`hookhost_event_duration_seconds_bucket{event="execjob_begin",le="0.005"} 1`,
		`hookhost_event_duration_seconds_bucket{event="execjob_begin",le="60"} 1`,
		`hookhost_event_duration_seconds_bucket{event="execjob_begin",le="+Inf"} 2`,
		"go_goroutines ", "process_resident_memory_bytes ",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q", line)
		}
	}
}

func goVersion(t *testing.T, text string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, `hookhost_build_info{goversion="`)
	version, _, _ := strings.Cut(rest, `"`)
	if !found || !strings.HasPrefix(version, "go") {
		t.Fatalf("goversion %q", version)
	}
	return version
}

func TestScrapeIsOpenMetricsForWhoAcceptsIt(t *testing.T) {
	text := scrape(t, newMetrics(&node{}).Handler(), "application/openmetrics-text; version=1.0.0")
	if !strings.HasSuffix(text, "# EOF\n") || !strings.Contains(text, "# TYPE hookhost_oom_kills counter") {
		t.Errorf("%.2000s", text)
	}
}

func TestScrapeWithoutAListOfJobsHasTheRest(t *testing.T) {
	text := scrape(t, newMetrics(&node{err: errors.New("broken")}).Handler(), "")
	if !strings.Contains(text, "hookhost_oom_kills_total 5") || strings.Contains(text, "hookhost_jobs{") {
		t.Errorf("%.2000s", text)
	}
}

// gone is an answer whose reader has closed the connection.
type gone struct{ http.ResponseWriter }

func (gone) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestLogHasWhatIsWrongWithMetricsAndNoReaders(t *testing.T) {
	for want, n := range map[int]*node{0: {jobs: someJobs()}, 1: {err: errors.New("broken")}} {
		var logged strings.Builder
		m := newMetrics(n)
		m.opt.ErrorLog = log.New(&logged, "", 0)
		m.Handler().ServeHTTP(gone{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		must.Equal(t, "lines of the log", want, strings.Count(logged.String(), "\n"))
	}
}

// Many who scrape at the same time cost as much as one.
func TestScrapesAtTheSameTimeReadOnce(t *testing.T) {
	n := &node{jobs: someJobs(), entered: make(chan struct{}), released: make(chan struct{})}
	m := newMetrics(n)
	var group sync.WaitGroup
	first := make(chan string, 1)
	group.Go(func() { first <- scrape(t, m.Handler(), "") })
	<-n.entered
	for range 20 {
		group.Go(func() {
			if text := scrape(t, m.Handler(), ""); !strings.Contains(text, "pbs_cgroup_cpus") {
				t.Error("a scrape that joined another has no jobs")
			}
		})
	}
	must.Eventually(t, "all wait for the one", func() bool { return waiting() == 20 })
	close(n.released)
	group.Wait()
	if lists, reads := n.lists.Load(), n.reads.Load(); lists != 1 || reads != 3 {
		t.Errorf("%d lists, %d reads, want 1 and 3", lists, reads)
	}
	<-first
}

// waiting returns how many goroutines wait for the gathering of another.
func waiting() int {
	const group = "singleflight.(*Group)."
	all := stacks()
	return strings.Count(all, group+"Do(") - strings.Count(all, group+"doCall(")
}

// ofJobsOrOurs matches what is not the library's.
var ofJobsOrOurs = regexp.MustCompile(`^(hookhost|pbs|cgroup|ceems)_`)

// promtool returns Debian's program for checking metrics and rules.
func promtool(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("HOOKHOST_KERNEL_TESTS") == "required" {
			t.Fatal("promtool is required: install Debian's package prometheus")
		}
		t.Skip("needs promtool, of Debian's package prometheus")
	}
	return path
}

func TestPromtoolHasNothingAgainstAScrape(t *testing.T) {
	tool := promtool(t)
	m := newMetrics(&node{jobs: someJobs(), names: []string{"pbs"}}) // other names are as they are
	m.Event(hostapi.EventBegin, host.Accepted, time.Millisecond)
	m.Call("cgroup", host.Accepted, time.Millisecond)
	cmd := exec.Command(tool, "check", "metrics")
	cmd.Stdin = strings.NewReader(scrape(t, m.Handler(), ""))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

func TestEndpointServesScrapesAndNothingElse(t *testing.T) {
	address := listen(t, &Endpoint{Handler: says("jobs 3\n")})
	for _, tt := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/metrics", "", 200}, {"HEAD", "/metrics", "", 405}, {"POST", "/metrics", "x", 405},
		{"PUT", "/metrics", "", 405}, {"GET", "/metrics", "body", 400}, {"GET", "/", "", 404},
		{"GET", "/v1/jobs", "", 404}, {"GET", "/metrics/", "", 404}, {"GET", "/debug/pprof/", "", 404},
	} {
		req, err := http.NewRequest(tt.method, "http://"+address+tt.path, strings.NewReader(tt.body))
		must.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		must.NoError(t, err)
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.status || (tt.status == 200) != (string(text) == "jobs 3\n") || !resp.Close {
			t.Errorf("%s %s: %d %q, kept open: %v", tt.method, tt.path, resp.StatusCode, text, !resp.Close)
		}
	}
}
