package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

// companion is a hook that the tested hook needs. It gets each event first, as a hook of a lower
// order does.
type companion struct {
	*test
	session *session
}

// startCompanions starts the hooks of Options.After. The caller must call stop, even after an
// error.
func (t *test) startCompanions(ctx context.Context) (stop func(), err error) {
	var sessions []*session
	stop = func() {
		for _, s := range sessions {
			s.close()
		}
	}
	for i, h := range t.After {
		c := &companion{test: &test{Options: t.Options, live: liveJobs{jobs: map[string]hostapi.Job{}}}}
		if c.Program, err = filepath.Abs(h.Program); err != nil {
			return stop, err
		}
		c.Dir = filepath.Join(t.Dir, fmt.Sprint(i))
		if err := os.Mkdir(c.Dir, 0o700); err != nil {
			return stop, err
		}
		c.report = &Report{Hook: hookName(c.Program), Program: c.Program}
		if c.registry, err = c.register("hooks.d", h.Config); err != nil {
			return stop, err
		}
		if c.session, err = c.open(ctx, c.registry, c.log.entry()); err != nil {
			lines, _ := c.log.lines()
			return stop, fmt.Errorf("hook %s, which runs before: %w %s", c.report.Hook, err, strings.Join(lines, "; "))
		}
		sessions = append(sessions, c.session)
		t.companions = append(t.companions, c)
	}
	return stop, nil
}

// call sends an event to the companion, if it handles it.
func (c *companion) call(ctx context.Context, req *hostapi.Request) error {
	r, a := *req, answer{out: &hostapi.Outcome{}}
	if r.Job == nil {
		r.JobList = c.live.list()
	} else {
		job := *r.Job
		job.State = nil
		if known := c.live.list()[job.ID]; known != nil {
			job.State = known.State
		}
		r.Job = &job
	}
	if c.session.plugin().Gets(r.Event) {
		a = c.session.call(ctx, &r)
		if result, text := a.judge(); result != OK {
			return fmt.Errorf("hook %s, which runs before: %s: %s", c.report.Hook, r.Event, text)
		}
	}
	switch {
	case r.Job == nil:
		c.live.update(a.out)
	case r.Event.Stage() == hostapi.StageEnd:
		c.live.remove(r.Job.ID)
	default:
		if a.out.State != nil {
			r.Job.State = a.out.State
		}
		c.live.set(*r.Job)
	}
	return nil
}
