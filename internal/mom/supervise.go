package mom

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/proc"
)

// reapTime is how long a killed program may take to end before its epilogue is sent regardless. The
// program may hang in the kernel, or be frozen, and the epilogue's hooks have more means than a
// signal.
const reapTime = 10 * time.Second

// supervisor passes signals on to a running program until it has ended.
type supervisor struct {
	w     *walk
	child *proc.Child

	interrupts  int
	terminating bool
	suspended   bool
	kill        <-chan time.Time // rings when the grace is over
	giveUp      <-chan time.Time // rings when the program should have ended
	again       <-chan time.Time // rings when the resume is tried again
	refused     bool             // a message said why the job is not resumed
}

// supervise returns when the program has ended, or was killed and does not end.
func (w *walk) supervise(ctx context.Context, child *proc.Child) {
	s := &supervisor{w: w, child: child}
	exited := make(chan error, 1)
	var exit proc.Exit
	go func() {
		var err error
		exit, err = child.Wait(context.WithoutCancel(ctx))
		exited <- err
	}()
	signals, done := w.spec.Signals, ctx.Done()
	for {
		select {
		case err := <-exited:
			if err != nil {
				w.result.ExitStatus = ExitFailed
				w.fail(err)
				return
			}
			w.ended(exit)
			return
		case sig, ok := <-signals:
			if !ok {
				signals = nil
			}
			if sig, ok := sig.(syscall.Signal); ok {
				s.signal(ctx, sig)
			}
		case <-done:
			done = nil
			s.killNow()
		case <-s.kill:
			s.killNow()
		case <-s.again:
			s.resume(ctx)
		case <-s.giveUp:
			w.ended(proc.Exit{Status: syscall.WaitStatus(unix.SIGKILL)})
			return
		}
	}
}

// signal carries out what sig requests.
func (s *supervisor) signal(ctx context.Context, sig syscall.Signal) {
	switch sig {
	case unix.SIGINT:
		// The program decides about the first: an interactive program may not want to end.
		if s.interrupts++; s.interrupts > 1 {
			s.terminate(ctx)
			return
		}
	case unix.SIGTERM:
		s.terminate(ctx)
		return
	case unix.SIGTSTP:
		s.suspend(ctx)
		return
	case unix.SIGCONT:
		if s.suspended {
			s.resume(ctx)
			return
		}
	}
	s.pass(sig)
}

// pass signals the program's process group. If the group is gone, that is not an error.
func (s *supervisor) pass(sig syscall.Signal) {
	if err := s.child.Signal(sig); !errors.Is(err, proc.ErrGone) {
		s.w.fail(err)
	}
}

// terminate ends the job as PBS does on request: preterm, which may refuse, SIGTERM, and after the
// grace SIGKILL. The second call kills.
func (s *supervisor) terminate(ctx context.Context) {
	if s.terminating {
		s.killNow()
		return
	}
	if _, err := s.w.ask(ctx, &hostapi.Request{Event: hostapi.EventPreterm}); err != nil {
		s.w.fail(err)
		if reject := (*Reject)(nil); errors.As(err, &reject) {
			return
		}
	}
	s.terminating = true
	s.pass(unix.SIGTERM)
	s.pass(unix.SIGCONT) // a stopped program would sleep through its grace
	s.kill = time.After(s.w.spec.grace())
}

func (s *supervisor) killNow() {
	s.kill = nil
	if s.giveUp == nil {
		s.giveUp = time.After(reapTime)
	}
	s.pass(unix.SIGKILL)
}

// suspend stops the program with SIGSTOP. The kernel does not deliver SIGTSTP to a group that
// nobody in its session could continue.
func (s *supervisor) suspend(ctx context.Context) {
	if s.terminating || s.suspended {
		return
	}
	s.pass(unix.SIGSTOP)
	s.suspended, s.refused = true, false
	s.w.announce(ctx, hostapi.EventPostsuspend)
	if s.w.spec.Stop != nil {
		s.w.spec.Stop()
		s.resume(ctx)
	}
}

// resumeAgain is the delay before a refused resume is tried again. The request counts until it has
// been carried out once.
const resumeAgain = 5 * time.Second

// resume lets the program continue unless a hook refuses. Then the job's standard error says so,
// and the resume is tried again until it is accepted or the job ends.
func (s *supervisor) resume(ctx context.Context) {
	s.again = nil
	if _, err := s.w.ask(ctx, &hostapi.Request{Event: hostapi.EventPreresume}); err != nil {
		if reject := (*Reject)(nil); errors.As(err, &reject) {
			if !s.refused {
				s.w.stderr.add([]string{fmt.Sprintf("hookhost: the job stays suspended, and is tried again every "+
					"%v: %s", resumeAgain, reject.Message)})
				s.w.stderr.flush(0)
			}
			s.refused, s.again = true, time.After(resumeAgain)
			return
		}
		s.w.fail(err)
	}
	s.suspended = false
	s.pass(unix.SIGCONT)
}
