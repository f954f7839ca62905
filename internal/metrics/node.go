package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookhost/hookhost/internal/host"
)

// Counts holds the daemon's own counters since its start.
type Counts struct {
	host.Counts
	Hooks    []Hook
	DoctorOK *bool // nil as long as it is not known

	ReportsWritten, ReportFailures int64
	Refused                        map[string]int64 // calls and connections, by the kind of the error
}

// Hook is the state of the program of a hook in force.
type Hook struct {
	Name              string
	Up                bool
	Restarts, Crashes int
}

// nodeCollector exports the counters.
type nodeCollector struct{ opt *Options }

var (
	hookLabels = []string{"hook"}

	hookUp       = prometheus.NewDesc("hookhost_hook_up", "1 if the hook's program runs, else 0.", hookLabels, nil)
	hookRestarts = prometheus.NewDesc("hookhost_hook_restarts_total",
		"How often the hook's program was restarted.", hookLabels, nil)
	hookCrashes = prometheus.NewDesc("hookhost_hook_crashes_total",
		"How often the hook's program crashed, failed to start or was killed by its alarm.", hookLabels, nil)
	doctorOK = prometheus.NewDesc("hookhost_doctor_ok",
		"1 if hookhost doctor last found that every configured hook can work, else 0.", nil, nil)
	oomKills = prometheus.NewDesc("hookhost_oom_kills_total",
		"Processes of jobs that the kernel killed because memory ran out.", nil, nil)
	adopted = prometheus.NewDesc("hookhost_strays_adopted_total",
		"Processes outside every job that were moved into theirs.", nil, nil)
	written = prometheus.NewDesc("hookhost_reports_written_total",
		"Reports of finished jobs that were written to disk.", nil, nil)
	writeFailures = prometheus.NewDesc("hookhost_report_write_failures_total",
		"Reports that could not be written to disk at that time.", nil, nil)
	refusedCalls = prometheus.NewDesc("hookhost_refused_calls_total",
		"Calls and connections that were refused because of their caller, by kind.", []string{"kind"}, nil)
)

// Describe sends what Collect may send.
func (c *nodeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		hookUp, hookRestarts, hookCrashes, doctorOK, oomKills, adopted, written, writeFailures, refusedCalls,
	} {
		ch <- d
	}
}

// Collect reads no file.
func (c *nodeCollector) Collect(ch chan<- prometheus.Metric) {
	n, s := c.opt.Counts(), &sink{}
	if n.DoctorOK != nil {
		s.gauge(doctorOK, float(*n.DoctorOK))
	}
	for _, h := range n.Hooks {
		s.gauge(hookUp, float(h.Up), h.Name)
		s.counter(hookRestarts, float64(h.Restarts), h.Name)
		s.counter(hookCrashes, float64(h.Crashes), h.Name)
	}
	s.counter(oomKills, float64(n.OOMKills))
	s.counter(adopted, float64(n.Adopted))
	s.counter(written, float64(n.ReportsWritten))
	s.counter(writeFailures, float64(n.ReportFailures))
	for kind, count := range n.Refused {
		s.counter(refusedCalls, float64(count), kind)
	}
	s.sendTo(ch)
}

// float returns a condition as a gauge: 1 or 0.
func float(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
