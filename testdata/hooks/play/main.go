// Program play is a hook for tests. At one event it writes down that it was called, and waits until
// it is told to go on.
package main

import (
	"context"
	"os"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

type play struct {
	Event   hostapi.Event `toml:"event"`   // the others are accepted
	Arrived string        `toml:"arrived"` // a file that is made first, with a line for each call
	Until   string        `toml:"until"`   // a file that is waited for, at most to the alarm
}

func newPlay(s *hostapi.Setup) (any, error) {
	p := &play{}
	return p, s.Decode(p)
}

func (p *play) act(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if req.Event != p.Event {
		return nil, nil
	}
	if err := p.arrive(req); err != nil {
		return nil, err
	}
	for p.Until != "" {
		if _, err := os.Stat(p.Until); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil, nil
}

// arrive writes the call down.
func (p *play) arrive(req *hostapi.Request) error {
	f, err := os.OpenFile(p.Arrived, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(string(req.Event) + " " + req.Job.ID + "\n")
	return err
}

type (
	request = hostapi.Request
	outcome = hostapi.Outcome
)

func (p *play) ExecjobBegin(c context.Context, r *request) (*outcome, error)    { return p.act(c, r) }
func (p *play) ExecjobEpilogue(c context.Context, r *request) (*outcome, error) { return p.act(c, r) }

func main() { hostapi.Serve(newPlay) }
