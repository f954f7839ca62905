package daemon

import (
	stdlog "log"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/metrics"
)

// openMetrics makes ready what a scrape asks. The host is asked at the first scrape.
func (d *daemon) openMetrics() {
	d.metrics = metrics.New(metrics.Options{
		Version: d.version, Node: d.conf.node, Jobs: d.jobs, Meter: d.meter, Counts: d.counts,
		ErrorLog: stdlog.New(d.log.WriterLevel(logrus.WarnLevel), "", 0),
	})
	d.endpoint = &metrics.Endpoint{
		Handler: d.metrics.Handler(), ErrorLog: stdlog.New(d.log.WriterLevel(logrus.DebugLevel), "", 0),
	}
}

// counts returns what the daemon has counted.
func (d *daemon) counts() metrics.Counts {
	c := metrics.Counts{Counts: d.host.Counts(), Refused: d.refusals.counts()}
	for _, p := range d.host.Programs() {
		c.Hooks = append(c.Hooks, metrics.Hook{
			Name: p.Name, Up: p.State == "running" || p.State == "waiting", Restarts: p.Restarts, Crashes: p.Crashes,
		})
	}
	c.ReportsWritten, c.ReportFailures = d.jobs.reports.Counts()
	return c
}

// listenForScrapes listens where the configuration in force says. A port that somebody else has is
// no reason to leave jobs alone: the log has it.
func (d *daemon) listenForScrapes() {
	if err := d.endpoint.Listen(d.conf.file.Load().Metrics.Address()); err != nil {
		d.log.Errorf("metrics.listen: nothing can be scraped there until the next reload: %v", err)
	}
}
