package main

import (
	"context"
	"fmt"

	"github.com/hookhost/hookhost/hostapi"
)

type (
	request = hostapi.Request
	outcome = hostapi.Outcome
)

func (h *hook) ExecjobBegin(c context.Context, r *request) (*outcome, error)    { return h.act(c, r) }
func (h *hook) ExecjobPrologue(c context.Context, r *request) (*outcome, error) { return h.act(c, r) }
func (h *hook) ExecjobLaunch(c context.Context, r *request) (*outcome, error)   { return h.act(c, r) }
func (h *hook) ExecjobAttach(c context.Context, r *request) (*outcome, error)   { return h.act(c, r) }
func (h *hook) ExecjobResize(c context.Context, r *request) (*outcome, error)   { return h.act(c, r) }
func (h *hook) ExecjobPostsuspend(c context.Context, r *request) (*outcome, error) {
	return h.act(c, r)
}
func (h *hook) ExecjobPreresume(c context.Context, r *request) (*outcome, error) { return h.act(c, r) }
func (h *hook) ExecjobPreterm(c context.Context, r *request) (*outcome, error)   { return h.act(c, r) }
func (h *hook) ExecjobAbort(c context.Context, r *request) (*outcome, error)     { return h.act(c, r) }
func (h *hook) ExecjobEpilogue(c context.Context, r *request) (*outcome, error)  { return h.act(c, r) }
func (h *hook) ExecjobEnd(c context.Context, r *request) (*outcome, error)       { return h.act(c, r) }
func (h *hook) ExechostStartup(c context.Context, r *request) (*outcome, error)  { return h.act(c, r) }
func (h *hook) ExechostPeriodic(c context.Context, r *request) (*outcome, error) { return h.act(c, r) }

// A field of the interface's own name would hide its method.
type (
	begin    = hostapi.ExecjobBegin
	launch   = hostapi.ExecjobLaunch
	end      = hostapi.ExecjobEnd
	periodic = hostapi.ExechostPeriodic
)

// alone leaves of all methods the one of event e.
func (h *hook) alone(e hostapi.Event) (any, error) {
	switch e {
	case hostapi.EventBegin:
		return struct{ begin }{h}, nil
	case hostapi.EventLaunch:
		return struct{ launch }{h}, nil
	case hostapi.EventEnd:
		return struct{ end }{h}, nil
	case hostapi.EventPeriodic:
		return struct{ periodic }{h}, nil
	}
	return nil, fmt.Errorf("alone: no form for %s", e)
}
