package host

import (
	"context"
	"fmt"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
)

// event is an event on its way through the host. Each stage of that way is in one file:
//
//	turn.go        the job's turn
//	admission.go   the rules by which hooks are called or not; the job's record
//	chain.go       the hooks
//	record.go      what changes in the record
//	verdict.go     the verdict, its line in the log, its count
type event struct {
	req   *hostapi.Request // as hooks get it
	told  hostapi.Request  // as its sender sent it
	from  caller
	began jobstate.Moment
	// rec is the job's record. Without one, the hooks of epilogue, end and abort tear down
	// everything that they find of the job. An event of the host has none.
	rec    *jobstate.Record
	late   *Verdict // of a begin that was missing: see beginLate
	unsure error    // a hook that may know the job does not run
	chain  *chain
}

// Handle carries out one event and returns the merged outcome of the hooks. A hook's reject or
// failure is in the outcome. An error means that the host could not carry out the event. KindJob
// means an invalid request, and KindBusy a busy job or a closing host. KindNode means an error with
// the node's own files.
//
// ctx limits only the wait for the job's turn. Once an event has begun, it runs to its end, within
// the alarms of its hooks. Half an event is worse than one whose caller has gone.
func (h *Host) Handle(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	v, err := h.judge(ctx, req, caller{outside: true})
	return outcomeOf(v), err
}

// HandleUser is Handle for a user's request. It waits until all requests of root, MoM and the host
// itself for the job are done. KindBusy means that too many requests wait, or that this one has
// waited too long. If ctx ends before the request begins, it does not begin.
func (h *Host) HandleUser(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	v, err := h.judge(ctx, req, caller{outside: true, user: true})
	return outcomeOf(v), err
}

// HandlePBS is Handle for an event that pbs_mom itself has sent, through its hook. It also returns
// the hook at which the event failed. home is the directory with that MoM's files and distinguishes
// the MoMs of one host; "" means unknown. mom is its process, which matters at a begin; zero means
// unknown. HandlePBS differs from Handle in these points:
//
//   - ctx belongs to the hook: when it ends, nobody takes the answer, and a begin or preresume that
//     is not accepted by then is undone.
//   - Options.PBSHas answers for the job.
//   - The job_list of an exechost_periodic is a complete list of this MoM's jobs (dropUnlisted),
//     and shows suspensions that were missed (followStates).
//   - A prologue or launch may begin its job (beginLate), or be refused as one of an earlier run
//     (startsThisRun).
func (h *Host) HandlePBS(ctx context.Context, req *hostapi.Request, home string,
	mom hostapi.ProcessID) (*Verdict, error) {
	own := *req
	own.MoM = nil
	return h.judge(ctx, &own, caller{outside: true, pbs: true, mom: mom, home: home, waits: ctx})
}

func (h *Host) judge(ctx context.Context, req *hostapi.Request, from caller) (*Verdict, error) {
	req, err := h.check(req)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "%w", err)
	}
	end, ok := h.beginEvent()
	if !ok {
		return nil, hostapi.Errorf(hostapi.KindBusy, "%s: %w", req.Event, ErrClosed)
	}
	defer end()
	if !req.Event.ForJob() {
		return h.carryOut(context.WithoutCancel(ctx), req, from)
	}
	release, err := h.turns.acquire(ctx, req.Job.ID, from.class(req.Event))
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindBusy, "%s of job %s: wait for its turn: %w", req.Event, req.Job.ID, err)
	}
	defer release()
	v, err := h.carryOut(context.WithoutCancel(ctx), req, from)
	if err != nil {
		err = fmt.Errorf("%s of job %s: %w", req.Event, req.Job.ID, err)
	}
	return v, err
}

// carryOut carries an event through admission, chain and record, and answers it. A begin is
// repeated if there is room after all. The caller holds the job's turn. Errors do not name event
// and job.
func (h *Host) carryOut(ctx context.Context, req *hostapi.Request, from caller) (*Verdict, error) {
	began := time.Now()
	e := &event{req: req, told: *req, from: from, began: h.clock.Now()}
	v, err := h.pass(ctx, e)
	if err == nil && h.makeRoom(ctx, e, v) {
		v, err = h.pass(ctx, e)
	}
	h.eventOver(req, v, err, time.Since(began))
	return v, err
}

// pass is one attempt of carryOut.
func (h *Host) pass(ctx context.Context, e *event) (*Verdict, error) {
	if v, err := h.admit(ctx, e); v != nil || err != nil {
		return v, err
	}
	e.chain = h.newChain(e)
	v := e.chain.run(ctx)
	h.record(ctx, e, v)
	return v, nil
}
