package hostapi_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
)

// probe does what the job's name says and can be told from outside what it saw.
type probe struct {
	Greeting string `toml:"greeting" json:"greeting"`
	setup    *hostapi.Setup
}

func newProbe(s *hostapi.Setup) (any, error) {
	p := &probe{Greeting: "none", setup: s}
	if err := s.Decode(p); err != nil {
		return nil, err
	}
	if p.Greeting == "panic" {
		panic("in the constructor")
	}
	return p, nil
}

func (p *probe) ExecjobEnd(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return nil, nil
}

func (p *probe) ExecjobBegin(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	what, rest, _ := strings.Cut(req.Job.Name, " ")
	switch what {
	case "reject":
		return &hostapi.Outcome{Reject: true, Message: rest, OnReject: hostapi.JobActionRerun}, nil
	case "error":
		return nil, hostapi.Errorf(hostapi.Kind(rest), "begin job %s: %w", req.Job.ID, errors.New("no \xff luck"))
	case "plain":
		return nil, errors.New("a plain error")
	case "partial":
		return &hostapi.Outcome{Notes: []string{"half"}}, hostapi.Errorf(hostapi.KindBusy, "not all")
	case "panic":
		panic("on purpose")
	case "wait":
		<-ctx.Done()
		return nil, fmt.Errorf("wait: %w", ctx.Err())
	case "misfit":
		return &hostapi.Outcome{Argv: []string{"x"}}, nil
	case "log":
		p.setup.Log.WithFields(logrus.Fields{"answer": 42, "err": errors.New("why")}).Warn("a warning")
		p.setup.Log.Debug("not to be seen at level info")
	case "print":
		fmt.Println("to stdout")
		fmt.Fprintln(os.Stderr, "to stderr")
	case "saw":
		note := fmt.Sprintf("%s %s %s %s %s uid=%d ms=%v", p.setup.Name, p.setup.Node, p.setup.Host["prefix"],
			p.Greeting,
			req.Job.ID, req.Job.Owner.UID, req.Job.MotherSuperior)
		return &hostapi.Outcome{Notes: []string{note}, State: req.Job.State}, nil
	}
	return nil, nil
}
