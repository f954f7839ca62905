package sister

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/pbs"
)

// Others reaches the other hosts of a job. Its methods may be called at the same time, and each
// returns in a bounded time one answer for each of the hosts.
type Others interface {
	// Send has hosts carry out an event, at the same time.
	Send(ctx context.Context, req *hostapi.Request, hosts []string) map[string]Answer
	// Usage asks hosts, at the same time, what a live job has used there by now.
	Usage(ctx context.Context, id string, hosts []string) map[string]Usage
}

// Usage is what a host told of a live job.
type Usage struct {
	Usage *hostapi.HostUsage // nil where it has measured nothing yet
	Ended bool               // it is through with a job of that id, this run of it or an earlier one
	Err   error              // names the host
}

// Store has the records of live jobs.
type Store interface {
	Get(id string) *jobstate.Record
	Update(id string, fn func(*jobstate.Record) (*jobstate.Record, error)) error
}

// Jobs are the jobs of this host, as far as they are on other hosts too.
type Jobs struct {
	Node   string // this host as exec_vnode names it
	Others Others // nil: [sister] is not configured, so no job of several hosts begins here
	Store  Store
	Log    *logrus.Entry
	// MoMUsage returns what sisters of a job told this host's pbs_mom when the job ended: one
	// answer for each of hosts. The call is made at execjob_epilogue, for hosts that Others does
	// not reach. If MoMUsage is nil, nothing is known of those.
	MoMUsage func(rec *jobstate.Record, hosts []string) map[string]Usage

	host    host.Inside
	signals *signals
}

var _ host.Sisters = (*Jobs)(nil)

// Of is host.Options.Sisters.
func (j *Jobs) Of(h host.Inside) host.Sisters {
	j.host, j.signals = h, newSignals(h.Beside, j)
	return j
}

// Around is Spread{Next: next}.
func (j *Jobs) Around(next host.Handler) host.Handler { return Spread{Next: next, jobs: j} }

// Spread carries out events of a job on this host, by Next, and on the job's other hosts. A job
// that hookhost runs on several hosts has one host that does so: the first. Under pbs_mom, which
// tells each host itself, the other hosts are asked for the job's usage alone.
//
//	begin                      Next, then all others at once; unless all accept, those that may
//	                           have begun get abort
//	prologue, resize           Next, then all others at once; the first that rejects, by
//	                           exec_vnode's order, has the say
//	preresume, preterm         likewise; a host that does not answer holds up no preterm
//	postsuspend                Next, then all others at once, whatever anybody says
//	launch, attach             not sent: each host launches and takes in its own
//	epilogue, abort            Next and all others at the same time
//	end                        all others at once, then Next, whose report has what they say
//
// A host that died over an event goes on from its job's record, which has the run before the first
// of the others gets anything. A host that did not hear of the end of the job asks (Heads).
type Spread struct {
	Next host.Handler
	jobs *Jobs
}

// passedOn are the events between begin and epilogue that the job's other hosts get as well.
var passedOn = []hostapi.Event{
	hostapi.EventPrologue, hostapi.EventResize, hostapi.EventPostsuspend, hostapi.EventPreresume, hostapi.EventPreterm,
}

// Handle carries out an event. The caller has the job's turn.
func (s Spread) Handle(ctx context.Context, req *hostapi.Request) (*host.Verdict, error) {
	switch {
	case req.Head != "":
	case req.Event == hostapi.EventBegin:
		return s.begin(ctx, req)
	case slices.Contains(passedOn, req.Event):
		return s.during(ctx, req)
	case req.Event == hostapi.EventEpilogue || req.Event == hostapi.EventEnd || req.Event == hostapi.EventAbort:
		return s.finish(ctx, req)
	}
	return s.Next.Handle(ctx, req)
}

// begin has the job's other hosts begin it, after this one has. The verdict is theirs if they do
// not all accept.
func (s Spread) begin(ctx context.Context, req *hostapi.Request) (*host.Verdict, error) {
	others, err := s.jobs.prepare(req)
	if err != nil {
		return nil, err
	}
	v, err := s.Next.Handle(ctx, req)
	if err != nil || v.Reject || len(others) == 0 {
		return v, err
	}
	g := s.send(ctx, req, req.Run, others)
	g.refuse(v, g.refusals())
	g.addTexts(v)
	if v.Reject {
		s.undo(ctx, req, g, v)
	} else {
		s.note(req, g)
	}
	return v, nil
}

// prepare looks at a begin that is to be spread, gives it its run and returns the job's other
// hosts.
func (j *Jobs) prepare(req *hostapi.Request) ([]string, error) {
	if !req.Spread {
		req.Run = ""
		return nil, nil
	}
	others, err := j.sistersOf(req.Job)
	switch {
	case err != nil:
		return nil, hostapi.Errorf(hostapi.KindJob, "%w", err)
	case len(others) == 0:
		req.Run = ""
		return nil, nil
	case j.Others == nil:
		return nil, hostapi.Errorf(hostapi.KindNode, "the job has %d other hosts: %w", len(others), errNoSisters)
	case req.Run == "":
		req.Run = newRun()
	case !hostapi.IsRun(req.Run):
		run := hostapi.Clip(req.Run, maxName)
		return nil, hostapi.Errorf(hostapi.KindJob, "run: %q: want 32 hexadecimal digits", run)
	}
	return others, nil
}

// newRun names a start of a job.
func newRun() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// undo takes back a begin here and on the hosts that may have begun the job.
func (s Spread) undo(ctx context.Context, req *hostapi.Request, g *gathered, v *host.Verdict) {
	abort := hostapi.Request{Event: hostapi.EventAbort, Node: req.Node, Job: req.Job}
	wait := s.beside(ctx, &abort, req.Run, g.mayHold())
	here, err := s.Next.Handle(ctx, &abort)
	if err = errors.Join(reason(here, err), wait().rejected()); err != nil {
		v.Add(err.Error())
	}
}

// reason returns why an event was not carried out, nil if it was.
func reason(v *host.Verdict, err error) error {
	if err == nil && v.Reject {
		err = errors.New(v.Message)
	}
	return err
}

// during has the job's other hosts carry out an event that this host has carried out. The verdict
// changes where they do not accept, and what some of them did is taken back.
func (s Spread) during(ctx context.Context, req *hostapi.Request) (*host.Verdict, error) {
	rec, others := s.jobs.spread(req)
	if len(others) == 0 {
		return s.Next.Handle(ctx, req)
	}
	if req.Event == hostapi.EventResize {
		if err := s.jobs.sameHosts(others, rec, req.Job); err != nil {
			return nil, hostapi.Errorf(hostapi.KindJob, "%w", err)
		}
	}
	v, err := s.Next.Handle(ctx, req)
	if err != nil || v.Reject && req.Event.StopsAtReject() {
		return v, err
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if req.Event == hostapi.EventPreterm {
		limited, cancel = context.WithTimeout(ctx, pretermLimit)
	}
	defer cancel()
	g := s.send(limited, req, rec.Run, others)
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
	if v.Reject {
		if err := s.reverse(ctx, req, rec, g); err != nil {
			v.Add(err.Error())
		}
	}
	g.addTexts(v)
	s.note(req, g)
	return v, nil
}

// reverse carries out the opposite of an event, where it has one: here, and on the other hosts that
// may have carried it out. rec is the job's record as it was before. The error says what could not
// be undone.
func (s Spread) reverse(ctx context.Context, req *hostapi.Request, rec *jobstate.Record, g *gathered) error {
	back := hostapi.Request{Node: req.Node}
	job, failed := *rec.Job, ""
	thaws := req.Event == hostapi.EventPreresume || req.Event == hostapi.EventPreterm
	switch {
	case thaws && rec.Phase == jobstate.PhaseSuspended:
		back.Event, failed = hostapi.EventPostsuspend, "the job is not suspended again"
	case req.Event == hostapi.EventResize:
		back.Event, failed = hostapi.EventResize, "the old size is not back"
		if job.ResourceList == nil {
			job.ResourceList = hostapi.Resources{}
		}
	default:
		return nil
	}
	back.Job = &job
	var errs []error
	if err := reason(s.Next.Handle(ctx, &back)); err != nil {
		errs = append(errs, fmt.Errorf("%s: %s: %w", s.jobs.Node, failed, err))
	}
	for _, r := range s.send(ctx, &back, rec.Run, g.mayHold()).refusals() {
		errs = append(errs, fmt.Errorf("%s is not undone on %s", req.Event, r.says()))
	}
	return firstOf(errs)
}

// finish carries out the last events of a job.
func (s Spread) finish(ctx context.Context, req *hostapi.Request) (*host.Verdict, error) {
	rec, others := s.jobs.spread(req)
	switch {
	case rec == nil:
		return s.Next.Handle(ctx, req)
	case len(others) == 0:
		return s.withUsage(ctx, req, rec)
	}
	job := *rec.Job
	if req.Job.ExitStatus != nil {
		job.ExitStatus = req.Job.ExitStatus
	}
	wait := s.beside(ctx, &hostapi.Request{Event: req.Event, Job: &job}, rec.Run, others)
	if req.Event == hostapi.EventEnd {
		s.note(req, wait())
	}
	v, err := s.Next.Handle(ctx, req)
	g := wait()
	if req.Event == hostapi.EventEpilogue {
		s.note(req, g)
	}
	if err == nil {
		g.settleWith(v)
		g.addTexts(v)
	}
	return v, err
}

// note puts into the job's record what the others told.
func (s Spread) note(req *hostapi.Request, g *gathered) {
	s.jobs.host.Note(req.Job.ID, g.note)
}

// spread returns the record of an event's job, and the other hosts that get the event.
func (j *Jobs) spread(req *hostapi.Request) (*jobstate.Record, []string) {
	rec := j.host.Record(req.Job.ID)
	if rec == nil {
		return nil, nil
	}
	before := *rec
	return &before, j.others(rec)
}

// others returns the hosts that events of the job go to.
func (j *Jobs) others(rec *jobstate.Record) []string {
	if !rec.Spreads() {
		return nil
	}
	hosts, err := j.sistersOf(rec.Job)
	if err != nil {
		return nil
	}
	return hosts
}

// sistersOf returns the other hosts of a job that this host is to spread, in exec_vnode's order.
// This host has to be its first.
func (j *Jobs) sistersOf(job *hostapi.Job) ([]string, error) {
	hosts, err := pbs.Hosts(job.ExecVnode, job.ExecHost2)
	if err != nil {
		return nil, err
	}
	if len(hosts) == 0 || !pbs.SameHost(hosts[0], j.Node) {
		return nil, fmt.Errorf("%s is not the first host of exec_vnode %q: only that one spreads a job",
			j.Node, hostapi.Clip(job.ExecVnode, maxName))
	}
	// Two names of one host have the part before the first dot in common.
	known := map[string][]string{}
	var others []string
	for _, name := range hosts {
		short, _, _ := strings.Cut(name, ".")
		same := func(other string) bool { return pbs.SameHost(other, name) }
		if same(j.Node) || slices.ContainsFunc(known[short], same) {
			continue
		}
		known[short], others = append(known[short], name), append(others, name)
	}
	return others, nil
}

// sameHosts fails where a resize does not leave the job on the hosts that it has.
func (j *Jobs) sameHosts(others []string, rec *jobstate.Record, told *hostapi.Job) error {
	job := *rec.Job
	if told.ExecVnode != "" {
		job.ExecVnode = told.ExecVnode
	}
	if told.ExecHost2 != "" {
		job.ExecHost2 = told.ExecHost2
	}
	now, err := j.sistersOf(&job)
	if err == nil && !slices.Equal(now, others) {
		err = fmt.Errorf("the job is on %s and %s: a resize cannot change its hosts",
			j.Node, strings.Join(others[:min(len(others), maxNamed)], ", "))
	}
	return err
}

// pretermLimit is how long other hosts have to say that a job is not to be ended yet: its SIGTERM
// waits for them.
const pretermLimit = 10 * time.Second

// maxNamed is how many hosts a message or an error names.
const maxNamed = 3
