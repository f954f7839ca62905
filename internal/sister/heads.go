package sister

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// Records are the jobs that live on this host.
type Records interface {
	List() []*jobstate.Record
}

// endsAtOnce bounds how many jobs are ended at the same time.
const endsAtOnce = 8

// endMissed is the note in the report of a job that its head does not know any more.
const endMissed = "the job ended while this host could not be reached"

// Heads has this host end jobs that another host, their head, has begun here and does not have any
// more. The end of such a job has not arrived here, or the head has lost the job. A job whose head
// does not answer stays, until that has lasted for Timeout.
//
// Jobs of pbs_mom have no head, and nobody is asked about them.
type Heads struct {
	records Records
	fleet   *Fleet
	abandon func(ctx context.Context, id, run, why string) error
	every   time.Duration
	timeout time.Duration
	log     *logrus.Entry
	now     func() time.Time

	begun chan struct{} // of room for one: two that come together are one
	again chan struct{} // likewise

	silent map[string]time.Time // by head: when it did not answer for the first time since it has
	logged map[string]time.Time // by head: when the log had its last line; "" is this host
}

// NewHeads returns a Heads that asks every while, and gives up a head after timeout; 0 is never.
// abandon ends a run of a job here (host.Abandon).
func NewHeads(
	records Records, fleet *Fleet, abandon func(ctx context.Context, id, run, why string) error,
	every, timeout time.Duration, log *logrus.Entry,
) *Heads {
	return &Heads{
		records: records, fleet: fleet, abandon: abandon, every: every, timeout: timeout, log: log, now: time.Now,
		begun: make(chan struct{}, 1), again: make(chan struct{}, 1),
		silent: map[string]time.Time{}, logged: map[string]time.Time{},
	}
}

// Begun has a job that a head has begun asked about after a while.
func (h *Heads) Begun() { wake(h.begun) }

// Again has the heads of all jobs asked at once.
func (h *Heads) Again() { wake(h.again) }

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run asks until ctx ends: at once, and then every while as long as there are such jobs. Run sleeps
// while there are none.
func (h *Heads) Run(ctx context.Context) {
	var due <-chan time.Time
	h.Again()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.begun:
			if due == nil {
				due = time.After(h.every)
			}
			continue
		case <-h.again:
		case <-due:
		}
		due = nil
		if h.ask(ctx) {
			due = time.After(h.every)
		}
	}
}

// over is a job that is to be ended here.
type over struct {
	rec *jobstate.Record
	why string
}

// ask asks the heads of all such jobs, many at once, and ends the jobs that are over. left is false
// when there was no such job.
func (h *Heads) ask(ctx context.Context) (left bool) {
	records := h.records.List()
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
	// The silence of a head without jobs is over: its next job comes from a head that is there.
	maps.DeleteFunc(h.silent, func(head string, _ time.Time) bool { return jobs[head] == nil })
	ended := make(chan over, len(records))
	errs := h.fleet.Each(ctx, heads, func(ctx context.Context, head string, c *api.Client) error {
		for _, r := range jobs[head] {
			switch is, err := isOver(ctx, c, r); {
			case err != nil:
				return err
			case is:
				ended <- over{r, endMissed}
			}
		}
		return nil
	})
	if ctx.Err() != nil {
		return true
	}
	for _, head := range heads {
		for _, r := range h.givenUp(head, errs[head], jobs[head]) {
			ended <- r
		}
	}
	close(ended)
	h.end(ctx, ended)
	return len(heads) > 0
}

// isOver asks a job's head whether it still has that run of it. An error is no answer.
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

// givenUp notes whether the head has answered, and returns all its jobs if it has not for too long.
// A head that answers with an error, or by TLS alone, is there: its jobs stay.
func (h *Heads) givenUp(head string, err error, jobs []*jobstate.Record) []over {
	if err == nil {
		delete(h.silent, head)
		delete(h.logged, head)
		return nil
	}
	if h.mayLog(head) {
		h.log.WithField("host", head).Warnf("jobs that it has begun here cannot be asked about: %d: %v", len(jobs), err)
	}
	if api.IsAnswered(err) {
		delete(h.silent, head)
		return nil
	}
	since, known := h.silent[head]
	if !known {
		since = h.now()
		h.silent[head] = since
	}
	if h.timeout <= 0 || h.now().Sub(since) < h.timeout {
		return nil
	}
	var list []over
	why := fmt.Sprintf("%s, which has begun the job, has not answered for %v", head, h.timeout)
	for _, r := range jobs {
		list = append(list, over{r, why})
	}
	return list
}

// end ends jobs, some at the same time.
func (h *Heads) end(ctx context.Context, ended <-chan over) {
	var ends sync.WaitGroup
	slots := make(chan struct{}, endsAtOnce)
	for o := range ended {
		slots <- struct{}{}
		ends.Go(func() {
			defer func() { <-slots }()
			if err := h.abandon(ctx, o.rec.Job.ID, o.rec.Run, o.why); err != nil && ctx.Err() == nil {
				h.log.WithField("job", o.rec.Job.ID).Errorf("end a job of %s: %v", o.rec.Head, err)
			}
		})
	}
	ends.Wait()
}

// mayLog is true once an hour for each head.
func (h *Heads) mayLog(head string) bool {
	now := h.now()
	if last, logged := h.logged[head]; logged && now.Sub(last) < time.Hour {
		return false
	}
	h.logged[head] = now
	return true
}
