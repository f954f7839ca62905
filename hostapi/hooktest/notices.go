package hooktest

import (
	"context"
	"testing"

	"github.com/hookhost/hookhost/hostapi"
)

type notice struct {
	job    string
	update *hostapi.JobUpdate
	err    error
}

// maxNotices is how many notices can wait for the test. Further ones wait in the hook.
const maxNotices = 1024

// listen receives the hook's notices until the test ends.
func (h *Hook) listen(t testing.TB) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- h.client.Notices(ctx, func(job string, update *hostapi.JobUpdate, err error) {
			select {
			case h.notices <- notice{job, update, err}:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
