// Package metrics tells Prometheus what a node's jobs use and how its daemon does.
//
// Events and calls of hooks are counted when they are over: see host.Observer. All else is read at
// a scrape. A scrape calls no hook, and reads a few cgroup files of each job, once for all who
// scrape at the same time. Nothing runs when nobody scrapes.
//
// Metrics of jobs have the names and labels of pbs_exporter, whose dashboards and joins work with
// them. Names of what is hookhost's own begin with hookhost_.
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

// Options is what a scrape asks. Its functions may be called at the same time.
type Options struct {
	Version string
	Node    string // this host as exec_vnode names it
	Jobs    Jobs
	Meter   Meter
	Counts  func() Counts
	// ErrorLog takes what is wrong with metrics themselves.
	ErrorLog *log.Logger
}

// Metrics are a daemon's. Metrics is a host.Observer, and safe for concurrent use.
type Metrics struct {
	opt      Options
	registry *prometheus.Registry
	gathers  singleflight.Group

	events    *prometheus.CounterVec
	eventTime *prometheus.HistogramVec
	calls     *prometheus.CounterVec
	callTime  *prometheus.HistogramVec
}

// buckets reach from an attach, 0.3 ms, to the alarm of a built-in hook, 60 s.
var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// New returns metrics that have counted nothing yet.
func New(o Options) *Metrics {
	m := &Metrics{opt: o, registry: prometheus.NewRegistry()}
	m.events = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hookhost_events_total",
		Help: "Events that are over, by what became of them: accept, reject, or error of a hook or of the node.",
	}, []string{"event", "result"})
	m.eventTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "hookhost_event_duration_seconds", Buckets: buckets,
		Help: "How long events took, from the job's turn to the outcome.",
	}, []string{"event"})
	m.calls = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hookhost_hook_calls_total",
		Help: "Calls of hooks that are over, by what became of them: accept, reject or error.",
	}, []string{"hook", "result"})
	m.callTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "hookhost_hook_call_duration_seconds", Buckets: buckets,
		Help: "How long hooks took to answer, with a start or a replay where the call needed one.",
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

// count counts one more. The other results are there from then on as well. An alert on an increase
// does not see the first of its kind if there was no 0 before.
func count(vec *prometheus.CounterVec, of string, result host.Result) {
	for _, r := range host.Results {
		counter := vec.WithLabelValues(of, string(r))
		if r == result {
			counter.Inc()
		}
	}
}

// Handler answers with all metrics, in OpenMetrics to whoever accepts that and else in the older
// text format. The answer is not compressed: that would take longer than all else of it.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(prometheus.GathererFunc(m.gather), promhttp.HandlerOpts{
		EnableOpenMetrics: true, DisableCompression: true, ErrorHandling: promhttp.ContinueOnError,
	})
}

// gather is one look at everything for all who ask at the same time. The log has what is wrong with
// it. An answer that breaks off is its reader's affair: anybody could fill the log by that.
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
