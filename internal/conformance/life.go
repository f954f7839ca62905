package conformance

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/hookhost/hookhost/hostapi"
)

// course is the order of the events of a test. Three jobs have events: one that began before the
// hook was registered, one that runs, and one that is aborted.
var course = []hostapi.Event{
	hostapi.EventEnd, hostapi.EventStartup,
	hostapi.EventBegin, hostapi.EventPrologue, hostapi.EventLaunch, hostapi.EventAttach, hostapi.EventPeriodic,
	hostapi.EventResize, hostapi.EventPostsuspend, hostapi.EventPreresume, hostapi.EventPreterm,
	hostapi.EventEpilogue, hostapi.EventEnd,
	hostapi.EventBegin, hostapi.EventAbort, hostapi.EventPeriodic,
}

const endOfUnknown = string(hostapi.EventEnd) + " of an unknown job"

// life is a job that does not exist, on its way through the course.
type life struct {
	*session
	test  *test
	later int // bytes of text of a later version in each event; 0 for none

	job      hostapi.Job
	launched time.Time
	sleepers []*os.Process // the processes that events name
}

// run sends the events of the course that the hook handles, all in one manner. An event that was
// refused or answered wrongly is not sent in a later run.
func (t *test) run(ctx context.Context, do manner, later int) error {
	l := &life{test: t, later: later}
	if err := l.open(ctx); err != nil {
		t.report.check(start).add(Fault, "again", err.Error())
		return nil
	}
	defer func() { l.endJob(); t.stopAfterLife(l.session) }()
	for i, e := range course {
		check := string(e)
		if i == 0 {
			check = endOfUnknown
		}
		if i == 0 || e == hostapi.EventBegin {
			l.endJob()
			var err error
			if l.job, err = t.nextJob(); err != nil {
				return err
			}
		}
		ok, err := l.send(ctx, e, check, do)
		if err != nil {
			return err
		}
		if !ok && e == hostapi.EventBegin {
			return nil // the job has not begun
		}
	}
	return nil
}

// send sends an event if the hook handles it, and reports whether the hook accepted it.
func (l *life) send(ctx context.Context, e hostapi.Event, check string, do manner) (ok bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	out := &hostapi.Outcome{}
	req, err := l.request(e)
	if err != nil {
		return false, err
	}
	for _, c := range l.test.companions {
		if err := c.call(ctx, req); err != nil {
			return false, err
		}
	}
	if l.plugin().Gets(e) {
		c := l.test.report.check(check)
		if c.Result == Refused || c.Result == Fault {
			return false, nil
		}
		if out, ok = do(ctx, l, req, c); !ok {
			return false, nil
		}
	}
	l.advance(e, out)
	return true, nil
}

// open starts the program, in place of the one that ran. After an error no program runs.
func (l *life) open(ctx context.Context) error {
	if l.session != nil {
		l.close()
	}
	var dial []grpc.DialOption
	if l.later > 0 {
		dial = append(dial, later(l.later))
	}
	s, err := l.test.open(ctx, l.test.registry, l.test.log.entry(), dial...)
	if err == nil {
		l.session = s
	}
	return err
}

// request returns the event, as a host sends it at this moment of the job's life.
func (l *life) request(e hostapi.Event) (*hostapi.Request, error) {
	req := &hostapi.Request{Event: e, Node: l.test.Node}
	if !e.ForJob() {
		req.JobList = l.test.live.list()
		return req, nil
	}
	job := l.job
	switch e {
	case hostapi.EventLaunch:
		req.Progname, req.Argv = "/bin/sleep", []string{"600"}
		req.Env = map[string]string{"PBS_JOBID": job.ID, "PATH": "/usr/bin:/bin"}
		fallthrough
	case hostapi.EventAttach:
		var err error
		if req.PID, err = l.process(); err != nil {
			return nil, err
		}
	case hostapi.EventResize:
		job.ResourceList = maps.Clone(job.ResourceList)
		job.ExecVnode = strings.Replace(job.ExecVnode, "mem=65536kb", "mem=131072kb", 1)
		if job.ResourceList["mem"] == "64mb" {
			job.ResourceList["mem"] = "128mb"
		}
	case hostapi.EventEpilogue, hostapi.EventEnd:
		job.ExitStatus = new(int)
	}
	if !l.launched.IsZero() {
		job.Elapsed = time.Since(l.launched)
	}
	req.Job = &job
	return req, nil
}

// advance records an event that was accepted, or that the hook does not handle.
func (l *life) advance(e hostapi.Event, out *hostapi.Outcome) {
	if !e.ForJob() {
		l.test.live.update(out)
		if job, lives := l.test.live.list()[l.job.ID]; lives {
			l.job.State = job.State
		}
		return
	}
	if out.State != nil {
		l.job.State = out.State
	}
	switch e {
	case hostapi.EventBegin:
		l.job.Phase = hostapi.PhasePrerun
	case hostapi.EventLaunch:
		l.job.Phase, l.launched = hostapi.PhaseRunning, time.Now()
	case hostapi.EventPostsuspend:
		l.job.Phase = hostapi.PhaseSuspended
	case hostapi.EventPreresume:
		l.job.Phase = hostapi.PhaseRunning
	case hostapi.EventEpilogue:
		l.job.Phase = hostapi.PhaseExiting
	}
	if e.Stage() == hostapi.StageEnd {
		l.test.live.remove(l.job.ID)
	} else {
		l.test.live.set(l.job)
	}
}

// process starts a process in a new session and returns its pid.
func (l *life) process() (int, error) {
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start a process for the job: %w", err)
	}
	go cmd.Wait()
	l.sleepers = append(l.sleepers, cmd.Process)
	return cmd.Process.Pid, nil
}

// endJob forgets the job and ends its processes.
func (l *life) endJob() {
	for _, p := range l.sleepers {
		p.Kill()
	}
	l.sleepers, l.launched = nil, time.Time{}
	l.test.live.remove(l.job.ID)
}
