package sister

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/report"
)

// usageTime is how long a host may take to tell what a job has used there: a report waits for it.
const usageTime = 3 * time.Second

var _ Others = (*Fleet)(nil)

// Usage asks hosts for their reports of a job, of which only what is their own counts.
func (f *Fleet) Usage(ctx context.Context, id string, hosts []string) map[string]Usage {
	told := make(map[string]Usage, len(hosts))
	var mu sync.Mutex
	note := func(name string, u Usage) {
		mu.Lock()
		defer mu.Unlock()
		told[name] = u
	}
	errs := f.Each(ctx, hosts, func(ctx context.Context, name string, c *api.Client) error {
		u, err := usageOn(ctx, c, id, name)
		if err != nil { // not as Each tells it: that this may have been carried out is of no interest
			err = fmt.Errorf("%s: %w", name, err)
		}
		u.Err = err
		note(name, u)
		return nil
	})
	for name, err := range errs { // those that were not called
		note(name, Usage{Err: err})
	}
	return told
}

func usageOn(ctx context.Context, c *api.Client, id, name string) (Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, usageTime)
	defer cancel()
	text, err := c.Report(ctx, id)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return Usage{}, fmt.Errorf("no answer within %v", usageTime)
	case err != nil:
		return Usage{}, err
	}
	return ownUsage(text, name)
}

// ownUsage returns what a report says of the host that it comes from.
func ownUsage(text json.RawMessage, name string) (Usage, error) {
	r, err := report.FromArchive(text)
	if err != nil {
		return Usage{}, err
	}
	told := Usage{Ended: r.End != nil}
	for h, usage := range r.Hosts {
		if pbs.SameHost(h, name) {
			told.Usage = usage
		}
	}
	return told, nil
}
