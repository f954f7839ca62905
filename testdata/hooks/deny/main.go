// Program deny is a hook that rejects jobs that ask for more cpus than this host's administrator
// allows.
package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/hookhost/hookhost/hostapi"
)

type deny struct {
	Most int `toml:"most"` // cpus that a job may have
}

func newDeny(s *hostapi.Setup) (any, error) {
	d := &deny{Most: 4}
	return d, s.Decode(d)
}

func (d *deny) ExecjobBegin(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	asked := req.Job.ResourceList["ncpus"]
	if asked == "" {
		return nil, nil // accepted
	}
	n, err := strconv.Atoi(asked)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "ncpus=%s: %w", asked, err)
	}
	if n > d.Most {
		return &hostapi.Outcome{Reject: true, Message: fmt.Sprintf("ncpus=%d: at most %d on this host", n, d.Most)}, nil
	}
	return nil, nil
}

func main() { hostapi.Serve(newDeny) }
