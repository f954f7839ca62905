package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// A job that hookhost runs on several hosts has one host that sends its events to the others: the first. Under pbs_mom, which
// does that itself, nothing here happens.
//
//	begin                      own hooks, then all others at once; unless all accept, those that may have are told abort
//	prologue, resize           own hooks, then all others at once; the first that rejects, by exec_vnode's order, has the say
//	preresume, preterm         likewise; a host that does not answer holds up no preterm
//	postsuspend                own hooks, then all others at once, whatever anybody says
//	launch, attach             not sent: each host launches and takes in its own
//	epilogue, end, abort       others and own hooks at the same time (gather.go)
//
// The record names the others before the first of them gets anything: a host that died goes on from there. A host that
// did not hear of the end of the job asks (Abandon).

// prepare looks at a begin that is to be spread, and gives it its run.
func (h *Host) prepare(req *hostapi.Request, rec *jobstate.Record) error {
	switch {
	case req.Head != "":
		return nil
	case !req.Spread:
		req.Run, rec.Run = "", "" // it says that there are other hosts to tell
		return nil
	}
	others, err := h.sistersOf(req.Job)
	switch {
	case err != nil:
		return hostapi.Errorf(hostapi.KindJob, "%w", err)
	case len(others) == 0:
		req.Run, rec.Run = "", ""
		return nil
	case h.opt.Sisters == nil:
		return hostapi.Errorf(hostapi.KindNode, "the job has %d other hosts: %w", len(others), errNoSisters)
	case req.Run == "":
		req.Run = newRun()
	case !hostapi.IsRun(req.Run):
		return hostapi.Errorf(hostapi.KindJob, "run: %q: want 32 hexadecimal digits", clip(req.Run, maxName))
	}
	rec.Run, rec.Sisters = req.Run, others
	return nil
}

// spreadBegin has the job's other hosts begin it, after this one has. The verdict is theirs if they do not all accept.
func (h *Host) spreadBegin(ctx context.Context, req *hostapi.Request, rec *jobstate.Record, v *Verdict) *gathered {
	g := &gathered{event: req.Event, replies: h.send(ctx, req, rec, rec.Sisters)}
	g.refuse(v, g.refusals())
	return g
}

// passedOn are the events between begin and epilogue that the job's other hosts get as well.
var passedOn = []hostapi.Event{
	hostapi.EventPrologue, hostapi.EventResize, hostapi.EventPostsuspend, hostapi.EventPreresume, hostapi.EventPreterm,
}

// spread has the job's other hosts carry out an event that this host's hooks have carried out, and changes the verdict where they do not
// accept. What some of them did when others refused is the caller's to take back (undoPart). It never returns nil.
func (h *Host) spread(ctx context.Context, req *hostapi.Request, rec *jobstate.Record, v *Verdict) *gathered {
	others := h.others(rec)
	if len(others) == 0 || !slices.Contains(passedOn, req.Event) || v.Reject && req.Event.StopsAtReject() {
		return &gathered{}
	}
	if req.Event == hostapi.EventPreterm {
		limited, cancel := context.WithTimeout(ctx, pretermLimit)
		defer cancel()
		ctx = limited
	}
	g := &gathered{event: req.Event, replies: h.send(ctx, req, rec, others)}
	refusals := g.refusals()
	if req.Event == hostapi.EventPreterm { // a host that cannot be reached keeps no job alive on the others
		refusals = slices.DeleteFunc(refusals, func(r reply) bool {
			if r.Err != nil {
				g.silent = append(g.silent, r)
			}
			return r.Err != nil
		})
	}
	g.refuse(v, refusals)
	return g
}

// takeBack sends the opposite of an event that was refused to those of the others that may have carried it out, and returns what could
// not be undone.
func (h *Host) takeBack(ctx context.Context, req *hostapi.Request, rec *jobstate.Record, g *gathered) error {
	var errs []error
	for _, r := range h.send(ctx, req, rec, g.mayHold()) {
		if !r.accepted() {
			errs = append(errs, fmt.Errorf("%s is not undone on %s", g.event, r.says()))
		}
	}
	return firstOf(errs)
}

// putBack resizes the job to what it was before a resize that another host refused: here and where that was accepted. The chain that it
// returns has to be noted in the record after that of the resize.
func (h *Host) putBack(ctx context.Context, rec *jobstate.Record, c *chain, g *gathered) (*chain, error) {
	job := *rec.Job
	job.ResourcesUsed, job.Elapsed = c.req.Job.ResourcesUsed, c.req.Job.Elapsed
	req := &hostapi.Request{Event: hostapi.EventResize, Node: h.opt.Node, Job: &job}
	back := h.newChain(req, rec)
	back.states = c.states
	var err error
	if v := back.run(ctx); v.Reject {
		err = fmt.Errorf("%s: the old size is not back: %s", h.opt.Node, v.Message)
	}
	return back, errors.Join(err, h.takeBack(ctx, req, rec, g))
}

// sameHosts tells whether a resize leaves the job on the hosts that it has.
func (h *Host) sameHosts(rec *jobstate.Record, job *hostapi.Job) error {
	others := h.others(rec)
	if len(others) == 0 {
		return nil
	}
	now, err := h.sistersOf(job)
	if err == nil && !slices.Equal(now, others) {
		err = fmt.Errorf("the job is on %s and %s: a resize cannot change its hosts", h.opt.Node, strings.Join(others[:min(len(others), maxNamed)], ", "))
	}
	if err != nil {
		return hostapi.Errorf(hostapi.KindJob, "%w", err)
	}
	return nil
}

// pretermLimit is how long other hosts have to say that a job is not to be ended yet: its SIGTERM waits for them.
const pretermLimit = 10 * time.Second

// maxNamed is how many hosts a message or an error names.
const maxNamed = 3

// refuse makes the verdict a reject for those that did not accept; the first has the say. Nothing happens without any.
func (g *gathered) refuse(v *Verdict, refusals []reply) {
	if len(refusals) == 0 {
		return
	}
	if first := refusals[0]; !v.Reject {
		v.Reject = true
		if first.Err == nil {
			v.OnReject, v.Kind = first.Outcome.OnReject, ""
		} else {
			v.Kind = kindOf(first.Err)
			v.OnReject = actionOn(g.event, v.Kind)
		}
	}
	v.add(named(refusals))
}

// kindOf is hostapi.KindOf but for an error that nobody gave a kind: the host could not be reached, or does not want this one.
func kindOf(err error) hostapi.Kind {
	if _, ok := errors.AsType[*hostapi.Error](err); !ok {
		return hostapi.KindNode
	}
	return hostapi.KindOf(err)
}

// named says what the first few hosts said, and how many more there are.
func named(replies []reply) string {
	var says []string
	for i, r := range replies {
		if i == maxNamed {
			says = append(says, fmt.Sprintf("and %d more", len(replies)-i))
			break
		}
		says = append(says, r.says())
	}
	return strings.Join(says, "; ")
}

// firstOf joins the first few errors, and says how many more there are.
func firstOf(errs []error) error {
	if len(errs) > maxNamed {
		errs = append(errs[:maxNamed:maxNamed], fmt.Errorf("and %d more", len(errs)-maxNamed))
	}
	return errors.Join(errs...)
}
