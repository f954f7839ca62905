package daemon

import (
	stdlog "log"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/metrics"
)

// openMetrics prepares metrics for scrapes. The host is asked only at the first scrape.
func (d *daemon) openMetrics() {
	d.metrics = metrics.New(metrics.Options{
		Version: d.version, Node: d.conf.node, Jobs: d.jobs, Meter: d.meter, Counts: d.counts,
		Names:    func() []string { return d.conf.file.Load().Metrics.Names },
		ErrorLog: stdlog.New(d.log.WriterLevel(logrus.WarnLevel), "", 0),
	})
	d.endpoint = &metrics.Endpoint{
		Handler: d.metrics.Handler(), ErrorLog: stdlog.New(d.log.WriterLevel(logrus.DebugLevel), "", 0),
	}
}

// counts returns the daemon's counters.
func (d *daemon) counts() metrics.Counts {
	c := metrics.Counts{Counts: d.host.Counts(), Refused: d.refusals.counts()}
	for _, p := range d.host.Programs() {
		c.Hooks = append(c.Hooks, metrics.Hook{
			Name: p.Name, Up: p.State == "running" || p.State == "waiting", Restarts: p.Restarts, Crashes: p.Crashes,
		})
	}
	c.DoctorOK = d.doctor.lastOK()
	c.ReportsWritten, c.ReportFailures = d.jobs.reports.Counts()
	return c
}

// listenForScrapes listens on the address in the configuration in force. A port that is in use is
// logged and does not affect jobs.
func (d *daemon) listenForScrapes() {
	if err := d.endpoint.Listen(d.conf.file.Load().Metrics.Address()); err != nil {
		d.log.Errorf("metrics.listen: nothing can be scraped there until the next reload: %v", err)
	}
}
