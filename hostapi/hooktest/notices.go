package hooktest

import (
	"context"
	"sync"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
)

// notices holds what the hook has told until the test asks for it.
type notices struct {
	mu   sync.Mutex
	all  []notice
	more chan struct{} // holds one token while there may be some
}

type notice struct {
	job    string
	update *hostapi.JobUpdate
	err    error
}

// listen takes the hook's notices until the test ends.
func (n *notices) listen(t testing.TB, c *hostapi.Client) {
	n.more = make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Notices(ctx, n.add) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (n *notices) add(job string, update *hostapi.JobUpdate, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, notice{job, update, err})
	select {
	case n.more <- struct{}{}:
	default:
	}
}

func (n *notices) next(ctx context.Context) (notice, error) {
	for {
		n.mu.Lock()
		if len(n.all) > 0 {
			first := n.all[0]
			n.all = n.all[1:]
			n.mu.Unlock()
			return first, nil
		}
		n.mu.Unlock()
		select {
		case <-n.more:
		case <-ctx.Done():
			return notice{}, context.Cause(ctx)
		}
	}
}
