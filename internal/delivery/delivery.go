// Package delivery hands the reports of finished jobs to the site: as files in a directory, and to
// a command.
package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/series"
)

// Targets are where the site wants reports.
type Targets struct {
	Directory string // "" is none
	Command   string // "" is none
}

// mostWaiting bounds the reports that wait for their delivery. With its series, a report of a job
// on one host takes some 50 kB.
const mostWaiting = 256

// Delivery delivers one report after the other, each once and to all targets. A report is lost if
// its delivery fails or is cut off by the end of the daemon. It stays in internal/reports.
type Delivery struct {
	wanted  func() Targets
	targets []*target
	log     *logrus.Entry
	queue   chan parcel
	closing chan struct{}           // closed by Close
	ended   chan struct{}           // closed when nothing is delivered any more
	stop    context.CancelCauseFunc // cuts off the current delivery
}

// parcel is a report with its series.
type parcel struct {
	report *report.Report
	points series.Job
}

// Open returns a Delivery. wanted is called for each report.
func Open(wanted func() Targets, log *logrus.Entry) *Delivery {
	return open(wanted, log, 30*time.Second)
}

// open is Open with the time that a target may take for a report.
func open(wanted func() Targets, log *logrus.Entry, limit time.Duration) *Delivery {
	ctx, stop := context.WithCancelCause(context.Background())
	d := &Delivery{
		wanted: wanted, log: log, queue: make(chan parcel, mostWaiting),
		closing: make(chan struct{}), ended: make(chan struct{}), stop: stop,
		targets: []*target{
			newTarget("reports.directory", limit, func(t Targets) string { return t.Directory }, writeFiles),
			newTarget("reports.command", limit, func(t Targets) string { return t.Command }, runCommand),
		},
	}
	go d.work(ctx)
	return d
}

// Send delivers the report of a job that has ended, and does not wait for that. r has no series.
// For a job on several hosts, only the mother superior's report is delivered. That of a job without
// a program is not.
func (d *Delivery) Send(r *report.Report, points series.Job) {
	wanted := d.wanted()
	if wanted == (Targets{}) || r.NotStarted || r.PBSJob == nil || !r.PBSJob.MotherSuperior {
		return
	}
	select {
	case d.queue <- parcel{r, points}:
	default:
		for _, t := range d.targets {
			if t.of(wanted) != "" {
				t.note(d.log, r.Job, fmt.Errorf("%d reports wait already", mostWaiting))
			}
		}
	}
}

// Close delivers what waits. If that takes longer than ctx, the rest is lost, as is what is sent
// later. It may be called once.
func (d *Delivery) Close(ctx context.Context) {
	close(d.closing)
	select {
	case <-d.ended:
	case <-ctx.Done():
		d.stop(errors.New("the daemon stops"))
	}
}

func (d *Delivery) work(ctx context.Context) {
	defer close(d.ended)
	for {
		select {
		case p := <-d.queue:
			d.deliver(ctx, p)
		case <-d.closing:
			for len(d.queue) > 0 && ctx.Err() == nil {
				d.deliver(ctx, <-d.queue)
			}
			return
		}
	}
}

func (d *Delivery) deliver(ctx context.Context, p parcel) {
	whole := *p.report
	whole.Hosts = p.points.Join(whole.Hosts)
	wanted := d.wanted()
	for _, t := range d.targets {
		if to := t.of(wanted); to != "" {
			t.note(d.log, whole.Job, t.deliver(ctx, to, &whole))
		}
	}
}
