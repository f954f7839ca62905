package mom

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
	"github.com/hookhost/hookhost/internal/proc"
)

// walk is a job on its way through its events.
type walk struct {
	spec   Spec
	engine Engine
	job    hostapi.Job
	result Result

	stderr   *stderr
	broken   bool                          // an event failed, which is more than a reject
	failures []error                       // errors after which the job continues
	undo     []func(context.Context) error // removes what was made for the job, in reverse

	started time.Time
}

// PBS's Exit_status (src/include/job.h): below 0 of a job that did not run.
const (
	execFail       = -1  // JOB_EXEC_FAIL1
	failHookRerun  = -16 // JOB_EXEC_FAILHOOK_RERUN: prologue rejected
	failHookDelete = -17 // JOB_EXEC_FAILHOOK_DELETE: launch rejected
	hookRerun      = -18 // JOB_EXEC_HOOK_RERUN: a hook said rerun()
	hookDelete     = -19 // JOB_EXEC_HOOK_DELETE: a hook said delete()
	hookError      = -22 // JOB_EXEC_HOOKERROR
	signalBase     = 256 // Exit_status of a program killed by signal N is 256+N
)

func newWalk(engine Engine, spec Spec) *walk {
	w := &walk{spec: spec, engine: engine, job: *spec.Job, stderr: &stderr{file: spec.Stderr}}
	w.job.ResourcesUsed = hostapi.Resources{}
	w.result.ExitStatus = ExitFailed
	return w
}

// begin sends begin. If begin is rejected, nothing else is sent.
func (w *walk) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("run job %s: %w", w.job.ID, context.Cause(ctx))
	}
	_, err := w.ask(ctx, &hostapi.Request{Event: hostapi.EventBegin, MoM: w.spec.MoM})
	return err
}

// run does everything that follows an accepted begin.
func (w *walk) run(ctx context.Context) error {
	child, err := w.start(ctx)
	if err != nil {
		w.notStarted(err)
		w.announce(ctx, hostapi.EventAbort)
	} else {
		w.supervise(ctx, child)
	}
	w.announce(ctx, hostapi.EventEpilogue)
	w.announce(ctx, hostapi.EventEnd)
	w.cleanUp(ctx)
	return err
}

// sayTime bounds how long a program's start waits until a message of an event before it can be
// written.
const sayTime = time.Second

// start prepares the job and starts its program. After an error no process of the job is running.
func (w *walk) start(ctx context.Context) (*proc.Child, error) {
	if err := w.mayStart(ctx); err != nil {
		return nil, err
	}
	if _, err := w.ask(ctx, &hostapi.Request{Event: hostapi.EventPrologue}); err != nil {
		return nil, err
	}
	launch, err := w.prepare()
	if err != nil {
		return nil, fmt.Errorf("run job %s: %w", w.job.ID, err)
	}
	if err := w.mayStart(ctx); err != nil {
		return nil, err
	}
	stub, err := startStub(&w.spec)
	if err != nil {
		return nil, fmt.Errorf("run job %s: %w", w.job.ID, err)
	}
	started := false
	defer func() {
		if !started {
			stub.end()
		}
	}()
	launch.PID, w.job.SessionID = stub.PID, stub.PID
	out, err := w.ask(ctx, launch)
	if err != nil {
		return nil, err
	}
	w.stderr.flush(sayTime) // before the program's own output
	if err := w.mayStart(ctx); err != nil {
		return nil, err
	}
	if err := w.launch(stub, launch, out); err != nil {
		return nil, fmt.Errorf("run job %s: %w", w.job.ID, err)
	}
	started = true
	w.started = time.Now()
	w.result.Started = true
	return stub.Child, nil
}

// mayStart fails if the job's end was requested before its program was started. Other signals have
// no receiver yet.
func (w *walk) mayStart(ctx context.Context) error {
	signals := w.spec.Signals
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("run job %s: %w", w.job.ID, context.Cause(ctx))
		case sig, ok := <-signals:
			if !ok {
				signals = nil
			}
			if sig, ok := sig.(syscall.Signal); ok && ends(sig) {
				w.result.ExitStatus, w.result.Signaled = 128+int(sig), true
				return fmt.Errorf("run job %s: %v before it was started", w.job.ID, sig)
			}
		default:
			return nil
		}
	}
}

// ends reports whether sig ends a program that does not handle it.
func ends(sig syscall.Signal) bool {
	return sig == unix.SIGINT || sig == unix.SIGTERM || sig == unix.SIGHUP || sig == unix.SIGQUIT
}

// notStarted sets the exit statuses of a job whose program did not run.
func (w *walk) notStarted(err error) {
	status := execFail
	var reject *Reject
	var program *ExecError
	switch {
	case errors.As(err, &reject) && reject.Action == hostapi.JobActionRerun:
		status = hookRerun
	case errors.As(err, &reject) && reject.Action == hostapi.JobActionDelete:
		status = hookDelete
	case errors.As(err, &reject) && reject.Event == hostapi.EventLaunch:
		status = failHookDelete
	case errors.As(err, &reject):
		status = failHookRerun
	case errors.As(err, &program):
		status = ExitNotExecutable
		if errors.Is(program, fs.ErrNotExist) || errors.Is(program, unix.ENOTDIR) {
			status = ExitNotFound
		}
		w.result.ExitStatus = status
	case w.broken:
		status = hookError
	case w.result.Signaled:
		status = signalBase + w.result.ExitStatus - 128
	}
	w.job.ExitStatus = &status
}

// ended records how the program ended.
func (w *walk) ended(exit proc.Exit) {
	status := exit.Code()
	w.result.ExitStatus, w.result.Signaled = status, exit.Status.Signaled()
	if exit.Status.Signaled() {
		status = signalBase + int(exit.Status.Signal())
	}
	w.job.ExitStatus = &status
	w.job.ResourcesUsed["walltime"] = pbs.FormatDuration(time.Since(w.started)) // the host subtracts suspensions
}

// ask sends an event that may be rejected; in that case the error is a *Reject.
func (w *walk) ask(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	out, err := w.send(ctx, req)
	if err != nil {
		return nil, err
	}
	if out.Reject {
		return nil, &Reject{Event: req.Event, Message: out.Message, Action: out.OnReject}
	}
	return out, nil
}

// announce sends an event whose rejection or failure does not affect those that follow.
func (w *walk) announce(ctx context.Context, event hostapi.Event) {
	_, err := w.ask(ctx, &hostapi.Request{Event: event})
	w.fail(err)
}

// fail records an error, if err is one, after which the job continues. A daemon that is gone fails
// several events with the same words, which are recorded once.
func (w *walk) fail(err error) {
	if err == nil || slices.ContainsFunc(w.failures, func(e error) bool { return e.Error() == err.Error() }) {
		return
	}
	w.failures = append(w.failures, err)
}

// send sends an event. It does not stop when ctx is done. Waiting for the hooks' alarms is better
// than a host that continues with an event which its MoM believes to be over.
func (w *walk) send(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	ctx = context.WithoutCancel(ctx)
	job := w.job
	job.ResourcesUsed = maps.Clone(job.ResourcesUsed)
	req.Node, req.Job = w.spec.Node, &job
	out, err := w.engine.Handle(ctx, req)
	if err != nil {
		w.broken = true
		return nil, err // it names event and job
	}
	if out == nil {
		out = &hostapi.Outcome{}
	}
	w.merge(out)
	return out, nil
}

// merge applies an outcome to the job.
func (w *walk) merge(out *hostapi.Outcome) {
	sum := &w.result.Outcome
	if out.ResourcesUsed != nil {
		maps.Copy(w.job.ResourcesUsed, out.ResourcesUsed)
		sum.ResourcesUsed = maps.Clone(w.job.ResourcesUsed)
	}
	if out.Usage != nil {
		sum.Usage = out.Usage
	}
	if out.Diag != "" {
		sum.Diag = out.Diag
	}
	for _, note := range out.Notes {
		if !slices.Contains(sum.Notes, note) {
			sum.Notes = append(sum.Notes, note)
		}
	}
	w.stderr.add(out.JobStderr)
}
