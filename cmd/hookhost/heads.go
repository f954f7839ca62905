package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/sister"
)

// ofHeads has the host end jobs that another host has begun here and knows no more: its word that they are over has not come through, or it
// has lost them. Only that host is believed, and only when it answers: as long as it does not, a job stays.
type ofHeads struct {
	store   *jobstate.Store
	fleet   *sister.Fleet
	abandon func(ctx context.Context, id, run, why string) error
	log     *logrus.Entry
	said    hourly

	alarm *alarm
}

// endsAtOnce bounds how many such jobs are ended at the same time.
const endsAtOnce = 8

// lostTouch is the note in the report of such a job.
const lostTouch = "the job ended while this host could not be reached"

func newOfHeads(store *jobstate.Store, fleet *sister.Fleet, abandon func(ctx context.Context, id, run, why string) error, every time.Duration, log *logrus.Entry) *ofHeads {
	o := &ofHeads{store: store, fleet: fleet, abandon: abandon, log: log}
	o.alarm = newAlarm(every, o.ask)
	return o
}

// run asks until ctx ends: at once, and then every while as long as there are such jobs.
func (o *ofHeads) run(ctx context.Context) { o.alarm.run(ctx) }

// begun has a job that a head has begun asked about after a while.
func (o *ofHeads) begun() { o.alarm.set() }

// ask asks the heads of all such jobs, many at once. It tells whether there are such jobs left.
func (o *ofHeads) ask(ctx context.Context) (left bool) {
	records, err := o.store.List(ctx)
	if err != nil && o.said.may("", time.Now()) {
		o.log.Errorf("look for jobs of other hosts: %v", err)
	}
	jobs := map[string][]*jobstate.Record{}
	var heads []string
	for _, r := range records {
		if r.Head == "" {
			continue
		}
		if jobs[r.Head] == nil {
			heads = append(heads, r.Head)
		}
		jobs[r.Head] = append(jobs[r.Head], r)
	}
	over := make(chan *jobstate.Record, len(records))
	errs := o.fleet.Each(ctx, heads, func(ctx context.Context, head string, c *api.Client) error {
		for _, r := range jobs[head] {
			switch is, err := isOver(ctx, c, r); {
			case err != nil:
				return err
			case is:
				over <- r
			}
		}
		o.said.forget(head)
		return nil
	})
	close(over)
	for head, err := range errs {
		if ctx.Err() == nil && o.said.may(head, time.Now()) {
			o.log.WithField("host", head).Warnf("%s that it has begun here cannot be asked about: %v", countOf(len(jobs[head]), "job"), err)
		}
	}
	var ends sync.WaitGroup
	slots := make(chan struct{}, endsAtOnce)
	for r := range over {
		slots <- struct{}{}
		ends.Go(func() {
			defer func() { <-slots }()
			if err := o.abandon(ctx, r.Job.ID, r.Run, lostTouch); err != nil && ctx.Err() == nil {
				o.log.WithField("job", r.Job.ID).Errorf("end a job that %s knows no more: %v", r.Head, err)
			}
		})
	}
	ends.Wait()
	return len(heads) > 0 || err != nil
}

// isOver asks a job's head whether it still has that run of it. An error says that nothing is known.
func isOver(ctx context.Context, c *api.Client, r *jobstate.Record) (bool, error) {
	j, err := c.Job(ctx, r.Job.ID)
	switch {
	case errors.Is(err, api.ErrNotFound):
		return true, nil
	case err != nil:
		return false, err
	}
	return j.Run != r.Run, nil
}
