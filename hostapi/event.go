package hostapi

import (
	"context"
	"fmt"
	"slices"
)

// Event is the name of a job's or host's event, spelled as PBS spells it.
type Event string

// The MoM hook events of PBS (src/include/hook.h). doc.go describes when each comes and its
// effects.
const (
	EventBegin       Event = "execjob_begin"
	EventPrologue    Event = "execjob_prologue"
	EventLaunch      Event = "execjob_launch"
	EventAttach      Event = "execjob_attach"
	EventResize      Event = "execjob_resize"
	EventPostsuspend Event = "execjob_postsuspend"
	EventPreresume   Event = "execjob_preresume"
	EventPreterm     Event = "execjob_preterm"
	EventAbort       Event = "execjob_abort"
	EventEpilogue    Event = "execjob_epilogue"
	EventEnd         Event = "execjob_end"
	EventStartup     Event = "exechost_startup"
	EventPeriodic    Event = "exechost_periodic"
)

// Stage says where in a job's life an event comes, and so how the host carries it out.
type Stage int

// The stages of a job on a host, and StageHost for the events that are not about one job.
const (
	StageBegin    Stage = iota // makes the job's record
	StageRun                   // between begin and epilogue
	StageEpilogue              // the leading program has ended; one more event follows
	StageEnd                   // no event follows; the record goes
	StageHost                  // about the host
)

// row holds the properties of one event: see the methods of Event. The binding is the interface
// that a hook implements for it.
type row struct {
	event Event
	stage Stage
	binding

	stopsAtReject bool
	refusable     bool
	starts        bool
	undo          Event
	optional      bool
}

// rows has one row per event, in life-cycle order.
var rows = []row{
	{event: EventBegin, stage: StageBegin, binding: bindingOf(ExecjobBegin.ExecjobBegin),
		stopsAtReject: true, refusable: true, starts: true, undo: EventAbort},
	{event: EventPrologue, stage: StageRun, binding: bindingOf(ExecjobPrologue.ExecjobPrologue),
		stopsAtReject: true, refusable: true, starts: true, optional: true},
	{event: EventLaunch, stage: StageRun, binding: bindingOf(ExecjobLaunch.ExecjobLaunch),
		stopsAtReject: true, refusable: true, starts: true},
	{event: EventAttach, stage: StageRun, binding: bindingOf(ExecjobAttach.ExecjobAttach),
		stopsAtReject: true, refusable: true},
	{event: EventResize, stage: StageRun, binding: bindingOf(ExecjobResize.ExecjobResize),
		stopsAtReject: true, refusable: true},
	{event: EventPostsuspend, stage: StageRun, binding: bindingOf(ExecjobPostsuspend.ExecjobPostsuspend)},
	{event: EventPreresume, stage: StageRun, binding: bindingOf(ExecjobPreresume.ExecjobPreresume),
		stopsAtReject: true, refusable: true, undo: EventPostsuspend},
	{event: EventPreterm, stage: StageRun, binding: bindingOf(ExecjobPreterm.ExecjobPreterm),
		stopsAtReject: true, undo: EventPostsuspend},
	{event: EventAbort, stage: StageEnd, binding: bindingOf(ExecjobAbort.ExecjobAbort)},
	{event: EventEpilogue, stage: StageEpilogue, binding: bindingOf(ExecjobEpilogue.ExecjobEpilogue)},
	{event: EventEnd, stage: StageEnd, binding: bindingOf(ExecjobEnd.ExecjobEnd)},
	{event: EventStartup, stage: StageHost, binding: bindingOf(ExechostStartup.ExechostStartup)},
	{event: EventPeriodic, stage: StageHost, binding: bindingOf(ExechostPeriodic.ExechostPeriodic)},
}

// Events returns every event in life-cycle order. The caller may change the slice.
func Events() []Event {
	events := make([]Event, len(rows))
	for i, r := range rows {
		events[i] = r.event
	}
	return events
}

// ParseEvent returns the event named name. ParseEvent fails if PBS has no MoM event of that name.
func ParseEvent(name string) (Event, error) {
	if e := Event(name); slices.ContainsFunc(rows, e.isIn) {
		return e, nil
	}
	return "", fmt.Errorf("event %.64q: unknown name", name)
}

func (e Event) isIn(r row) bool { return r.event == e }

// row returns the row of the event, an empty one for an unknown name.
func (e Event) row() row {
	if i := slices.IndexFunc(rows, e.isIn); i >= 0 {
		return rows[i]
	}
	return row{}
}

// Stage returns where in a job's life the event comes.
func (e Event) Stage() Stage { return e.row().stage }

// ForJob reports whether the event is about one job (execjob_*), not about the host (exechost_*).
func (e Event) ForJob() bool { return e.Stage() != StageHost }

// StopsAtReject reports whether the first reject ends the chain of hooks. The other events are
// tear-down or observation: every hook runs and errors are joined.
func (e Event) StopsAtReject() bool { return e.row().stopsAtReject }

// Refusable reports whether MoM accepts a reject, so that an event that failed is rejected. A
// rejected execjob_preterm would keep a job alive. A reject of a refusable event costs no more than
// a start, an attach, a resize or a resumption.
func (e Event) Refusable() bool { return e.row().refusable }

// Starts reports whether a part of the job starts after the event. The kind of an error then
// decides what becomes of the job.
func (e Event) Starts() bool { return e.row().starts }

// Undo returns the event that undoes this one, "" if there is none. A job that does not begin is
// aborted. A suspended job that does not resume, or must not be killed, remains suspended.
func (e Event) Undo() Event { return e.row().undo }

// Optional reports whether PBS is asked for the event only where a site's own hook handles it. MoM
// starts a process for each event that it is asked for, and the job waits for that process.
func (e Event) Optional() bool { return e.row().optional }

// A hook is any type with one or more of the methods below; Serve finds out which. Each takes the
// event as PBS's pbs.event() holds it and returns what to do. A nil Outcome with a nil error
// accepts.
//
// A hook gets events of one job one at a time, and events of several jobs at once. Every method
// must be idempotent: after a crash the host restarts the program and replays the event once.
type (
	// ExecjobBegin is called on each host of the job before any part of the job runs there. A begin
	// is all or nothing. A hook that rejects, or answers with an error of kind job, busy or node,
	// has undone its part and gets no execjob_abort. A hook that crashes, overruns its alarm or
	// fails in another way does get it.
	ExecjobBegin interface {
		ExecjobBegin(ctx context.Context, req *Request) (*Outcome, error)
	}
	// ExecjobPrologue is called on each host after every host accepted begin. PBS sends it only
	// where `openpbs install --event execjob_prologue` has requested it.
	ExecjobPrologue interface {
		ExecjobPrologue(ctx context.Context, req *Request) (*Outcome, error)
	}
	// ExecjobLaunch is called before each program that MoM starts for the job.
	ExecjobLaunch interface {
		ExecjobLaunch(ctx context.Context, req *Request) (*Outcome, error)
	}
	// ExecjobAttach is called when a process that MoM did not start is about to join the job.
	ExecjobAttach interface {
		ExecjobAttach(ctx context.Context, req *Request) (*Outcome, error)
	}
	// ExecjobResize is called when the resources of a running job have changed.
	ExecjobResize interface {
		ExecjobResize(ctx context.Context, req *Request) (*Outcome, error)
	}
	// ExecjobPostsuspend is called after the job was suspended.
	ExecjobPostsuspend interface {
		ExecjobPostsuspend(ctx context.Context, req *Request) (*Outcome, error)
	}
	// ExecjobPreresume is called before a suspended job resumes.
	ExecjobPreresume interface {
		ExecjobPreresume(ctx context.Context, req *Request) (*Outcome, error)
	}
	// ExecjobPreterm is called before the job is killed on request.
	ExecjobPreterm interface {
		ExecjobPreterm(ctx context.Context, req *Request) (*Outcome, error)
	}
	// ExecjobAbort is called when the start of the job failed after this hook accepted begin.
	ExecjobAbort interface {
		ExecjobAbort(ctx context.Context, req *Request) (*Outcome, error)
	}
	// ExecjobEpilogue is called when the job's leading program has ended.
	ExecjobEpilogue interface {
		ExecjobEpilogue(ctx context.Context, req *Request) (*Outcome, error)
	}
	// ExecjobEnd is the last event of a job on a host.
	ExecjobEnd interface {
		ExecjobEnd(ctx context.Context, req *Request) (*Outcome, error)
	}
	// ExechostStartup is called when the host starts, and again when pbs_mom has started or got a
	// SIGHUP, and when the hook's program has restarted. Request.JobList holds the jobs that live
	// here.
	ExechostStartup interface {
		ExechostStartup(ctx context.Context, req *Request) (*Outcome, error)
	}
	// ExechostPeriodic is called every freq seconds, counted from the end of the previous call.
	// Request.JobList holds the jobs that live here.
	ExechostPeriodic interface {
		ExechostPeriodic(ctx context.Context, req *Request) (*Outcome, error)
	}
)
