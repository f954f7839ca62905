package hostapi

import (
	"context"
	"fmt"
	"slices"
)

// Event is the name of a job's or host's event, spelled as PBS spells it.
type Event string

// The MoM hook events of PBS (src/include/hook.h). doc.go says when each comes and what it may do.
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

var events = []Event{
	EventBegin, EventPrologue, EventLaunch, EventAttach, EventResize, EventPostsuspend, EventPreresume,
	EventPreterm, EventAbort, EventEpilogue, EventEnd, EventStartup, EventPeriodic,
}

// Events returns every event in life-cycle order. The caller may change the slice.
func Events() []Event { return slices.Clone(events) }

// ParseEvent returns the event named name. ParseEvent fails if PBS has no MoM event of that name.
func ParseEvent(name string) (Event, error) {
	if e := Event(name); slices.Contains(events, e) {
		return e, nil
	}
	return "", fmt.Errorf("event %.64q: unknown name", name)
}

// ForJob reports whether the event is about one job (execjob_*), not about the host (exechost_*).
func (e Event) ForJob() bool { return e != EventStartup && e != EventPeriodic }

// StopsAtReject reports whether the first reject ends the chain of hooks. The other events are
// tear-down or observation: every hook runs and errors are joined.
func (e Event) StopsAtReject() bool {
	switch e {
	case EventAbort, EventEpilogue, EventEnd, EventPostsuspend, EventStartup, EventPeriodic:
		return false
	}
	return true
}

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
	// ExechostStartup is called when the host starts, and again when the hook's program has
	// restarted. Request.JobList holds the jobs that live here.
	ExechostStartup interface {
		ExechostStartup(ctx context.Context, req *Request) (*Outcome, error)
	}
	// ExechostPeriodic is called every freq seconds, counted from the end of the previous call.
	// Request.JobList holds the jobs that live here.
	ExechostPeriodic interface {
		ExechostPeriodic(ctx context.Context, req *Request) (*Outcome, error)
	}
)
