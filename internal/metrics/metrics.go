// Package metrics reports the usage of a node's jobs and the state of its daemon to Prometheus.
//
// Events and calls of hooks are counted when they end: see host.Observer. Everything else is read
// at a scrape. A scrape does not call hooks. It reads a few cgroup files of each job, once for all
// simultaneous scrapes. Between scrapes nothing runs.
//
// Metrics of jobs have the names and labels of other exporters, so that the dashboards for those
// work with them: see names.go. Names of hookhost's own metrics begin with hookhost_.
package metrics

import (
	"log"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sync/singleflight"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/host"
)

// Options holds the sources of a scrape. Its functions may be called at the same time.
type Options struct {
	Version string
	Node    string // this host as exec_vnode names it
	// Names returns the sets of names that the metrics of jobs have, each one of Sets.
	Names  func() []string
	Jobs   Jobs
	Meter  Meter
	Counts func() Counts
	// ErrorLog receives errors of the metrics themselves.
	ErrorLog *log.Logger
}

// Metrics holds the metrics of a daemon. It is a host.Observer, and safe for concurrent use.
type Metrics struct {
	opt      Options
	registry *prometheus.Registry
	gathers  singleflight.Group

	events    *prometheus.CounterVec
	eventTime *prometheus.HistogramVec
	calls     *prometheus.CounterVec
	callTime  *prometheus.HistogramVec
}

// buckets range from an attach, 0.3 ms, to the alarm of a built-in hook, 60 s.
var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// New returns metrics that have counted nothing yet.
func New(o Options) *Metrics {
	m := &Metrics{opt: o, registry: prometheus.NewRegistry()}
	m.events = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hookhost_events_total",
		Help: "Finished events by result: accept, reject, or error of a hook or of the node.",
	}, []string{"event", "result"})
	m.eventTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "hookhost_event_duration_seconds", Buckets: buckets,
		Help: "How long events took, from the job's turn to the outcome.",
	}, []string{"event"})
	m.calls = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hookhost_hook_calls_total",
		Help: "Finished calls of hooks by result: accept, reject or error.",
	}, []string{"hook", "result"})
	m.callTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "hookhost_hook_call_duration_seconds", Buckets: buckets,
		Help: "How long hooks took to answer, including a start or a replay if the call needed one.",
	}, []string{"hook"})
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "hookhost_build_info", Help: "The version of hookhost, and of the Go that built it.",
		ConstLabels: prometheus.Labels{"version": o.Version, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
	m.registry.MustRegister(build, m.events, m.eventTime, m.calls, m.callTime,
		&jobCollector{opt: &m.opt}, &nodeCollector{opt: &m.opt},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Event counts an event.
func (m *Metrics) Event(event hostapi.Event, result host.Result, took time.Duration) {
	count(m.events, string(event), result)
	m.eventTime.WithLabelValues(string(event)).Observe(took.Seconds())
}

// Call counts a call of a hook.
func (m *Metrics) Call(hook string, result host.Result, took time.Duration) {
	count(m.calls, hook, result)
	m.callTime.WithLabelValues(hook).Observe(took.Seconds())
}

// count increments the counter of a result, and creates the counters of the other results. An alert
// on an increase misses the first one if the counter did not exist with 0 before.
func count(vec *prometheus.CounterVec, of string, result host.Result) {
	for _, r := range host.Results {
		counter := vec.WithLabelValues(of, string(r))
		if r == result {
			counter.Inc()
		}
	}
}

// Handler answers with all metrics: in OpenMetrics if the client accepts that, otherwise in the
// older text format. The answer is not compressed, because that would take longer than everything
// else.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(prometheus.GathererFunc(m.gather), promhttp.HandlerOpts{
		EnableOpenMetrics: true, DisableCompression: true, ErrorHandling: promhttp.ContinueOnError,
	})
}

// gather collects all metrics once for all simultaneous scrapes, and logs errors. An answer that
// its reader cuts off is not logged, because anyone could fill the log that way.
func (m *Metrics) gather() ([]*dto.MetricFamily, error) {
	families, err, _ := m.gathers.Do("", func() (any, error) {
		families, err := m.registry.Gather()
		if err != nil {
			m.opt.ErrorLog.Printf("gather metrics: %v", err)
		}
		return families, err
	})
	return families.([]*dto.MetricFamily), err
}
