// Program deny is a hook that rejects jobs that ask for more cpus than this host's administrator
// allows.
package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/hookhost/hookhost/hostapi"
)

type hook struct {
	Most int `toml:"most"` // cpus that a job may have
}

func newHook(s *hostapi.Setup) (any, error) {
	h := &hook{Most: 4}
	return h, s.Decode(h)
}

func (h *hook) ExecjobBegin(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	asked := req.Job.ResourceList["ncpus"]
	if asked == "" {
		return nil, nil // accepted
	}
	n, err := strconv.Atoi(asked)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "ncpus=%s: %w", asked, err)
	}
	if n > h.Most {
		return &hostapi.Outcome{Reject: true, Message: fmt.Sprintf("ncpus=%d: at most %d on this host", n, h.Most)}, nil
	}
	return nil, nil
}

func main() { hostapi.Serve(newHook) }
