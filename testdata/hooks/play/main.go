// Program play is a hook for tests: at one event it does what its configuration says, and no sooner
// than it is told to.
package main

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

type play struct {
	Event    hostapi.Event     `toml:"event"`   // the others are accepted
	Job      string            `toml:"job"`     // as are those of other jobs, where it is set
	Arrived  string            `toml:"arrived"` // a file that is made first, with a line for each call
	Until    string            `toml:"until"`   // a file that is waited for, at most to the alarm
	Reject   string            `toml:"reject"`  // rejects with this message
	Used     map[string]string `toml:"used"`    // resources_used
	SetEnv   map[string]string `toml:"set_env"` // launch
	UnsetEnv []string          `toml:"unset_env"`
	// launch: a program with its arguments, in front of what is to be started
	Wrapper []string `toml:"wrapper"`
}

func newPlay(s *hostapi.Setup) (any, error) {
	p := &play{}
	return p, s.Decode(p)
}

func (p *play) act(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if req.Event != p.Event || req.Partial || p.Job != "" && req.Job.ID != p.Job {
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
	out := &hostapi.Outcome{Reject: p.Reject != "", Message: p.Reject, ResourcesUsed: p.Used, SetEnv: p.SetEnv,
		UnsetEnv: p.UnsetEnv}
	if len(p.Wrapper) > 0 {
		out.Progname = &p.Wrapper[0]
		out.Argv = slices.Concat(p.Wrapper[1:], []string{req.Progname}, req.Argv)
	}
	return out, nil
}

// arrive writes the call down.
func (p *play) arrive(req *hostapi.Request) error {
	if p.Arrived == "" {
		return nil
	}
	f, err := os.OpenFile(p.Arrived, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	about := string(req.Event)
	if req.Job != nil {
		about += " " + req.Job.ID
	}
	_, err = f.WriteString(about + "\n")
	return err
}

type (
	request = hostapi.Request
	outcome = hostapi.Outcome
)

func (p *play) ExecjobBegin(c context.Context, r *request) (*outcome, error)     { return p.act(c, r) }
func (p *play) ExecjobLaunch(c context.Context, r *request) (*outcome, error)    { return p.act(c, r) }
func (p *play) ExecjobEpilogue(c context.Context, r *request) (*outcome, error)  { return p.act(c, r) }
func (p *play) ExecjobEnd(c context.Context, r *request) (*outcome, error)       { return p.act(c, r) }
func (p *play) ExechostPeriodic(c context.Context, r *request) (*outcome, error) { return p.act(c, r) }

func main() { hostapi.Serve(newPlay) }
