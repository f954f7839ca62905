package metrics

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
)

// Jobs lists the live jobs.
type Jobs interface {
	// Jobs returns the jobs that live here.
	Jobs(context.Context) ([]api.Job, error)
}

// Meter reads the usage of live jobs.
type Meter interface {
	// Present returns a job's current usage.
	Present(job string) (api.Present, error)
}

// listTime bounds the wait for records that hooks are about to report, after a start.
const listTime = 5 * time.Second

// jobCollector reads the jobs at each scrape. An absent counter is absent, never 0.
type jobCollector struct{ opt *Options }

// readersAtOnce bounds how many jobs are read at the same time.
const readersAtOnce = 4

var (
	jobsLive = prometheus.NewDesc("hookhost_jobs", "Live jobs on this host, by phase.", []string{"phase"}, nil)
	// ceems divides among the jobs what it cannot attribute to one.
	ceemsUnits = prometheus.NewDesc("ceems_compute_units", "Live jobs on this host.", []string{"manager"}, nil)
)

// Describe sends what Collect may send.
func (c *jobCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- jobsLive
	ch <- ceemsUnits
	for _, set := range sets {
		for _, m := range set.metrics {
			ch <- m.desc
		}
	}
}

// Collect reads all jobs.
func (c *jobCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), listTime)
	defer cancel()
	jobs, err := c.opt.Jobs.Jobs(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(jobsLive, err)
		return
	}
	phases := map[hostapi.Phase]int{
		hostapi.PhasePrerun: 0, hostapi.PhaseRunning: 0, hostapi.PhaseSuspended: 0, hostapi.PhaseExiting: 0,
	}
	for _, j := range jobs {
		phases[j.Phase]++
	}
	s := &sink{}
	for phase, n := range phases {
		s.gauge(jobsLive, float64(n), string(phase))
	}
	names := c.opt.Names()
	if slices.Contains(names, "ceems") {
		s.gauge(ceemsUnits, float64(len(jobs)), "pbs")
	}
	s.sendTo(ch)
	// The registry wakes up whenever its channel has a sample. So it gets the samples of many jobs
	// at once.
	var readers sync.WaitGroup
	share := (len(jobs) + readersAtOnce - 1) / readersAtOnce
	for part := range slices.Chunk(jobs, max(share, 1)) {
		readers.Go(func() {
			s := &sink{}
			for _, j := range part {
				s.job(names, &reading{j.Job, api.NewPresentJob(j, c.opt.Node, c.opt.Meter.Present)})
			}
			s.sendTo(ch)
		})
	}
	readers.Wait()
}

// job adds the samples of a job, with the names of each set.
func (s *sink) job(names []string, r *reading) {
	for _, name := range names {
		set := sets[name]
		s.share(set.values(r.job))
		for _, m := range set.metrics {
			m.samples(r, func(value float64, labels ...string) { s.add(m.desc, m.kind, value, labels) })
		}
	}
}
