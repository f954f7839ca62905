package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

// The names of the checks of a program.
const (
	byHand   = "started by hand"
	start    = "start"
	signals  = "SIGTERM and SIGINT"
	lifeline = "end of hookhost"
	garbage  = "unreadable configuration"
	stop     = "stop"
)

// patience is how long the program may take to do something at once.
const patience = 2 * time.Second

// startByHand starts the program without the variable of hookhost. It must explain itself and fail,
// and not wait for a host.
func (t *test) startByHand(ctx context.Context) {
	c := t.report.check(byHand)
	defer c.done()
	ctx, cancel := context.WithTimeout(ctx, t.alarm())
	defer cancel()
	var stdout bytes.Buffer
	cmd := exec.CommandContext(ctx, t.Program)
	cmd.Env, cmd.Dir = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}, "/"
	cmd.Stdout, cmd.WaitDelay = &stdout, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Start()
	if err == nil {
		for unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
		cmd.Cancel() // what it has started; its pid cannot be reused yet
		err = cmd.Wait()
	}
	_, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		c.add(Fault, "", fmt.Sprintf("still runs after %v: without HOOKHOST_HOOK it must end", t.alarm()))
	case err == nil:
		c.add(Fault, "", "exit status 0: without HOOKHOST_HOOK it must fail")
	case !failed:
		c.add(Fault, "", err.Error())
	case stdout.Len() > 0:
		c.add(Fault, "", fmt.Sprintf("prints %q: standard output is for hookhost", hostapi.Clip(stdout.String(), 60)))
	}
}

// startAsHost starts the program as hookhost does. It reports whether the program runs.
func (t *test) startAsHost(ctx context.Context) bool {
	c := t.report.check(start)
	defer c.done()
	began := time.Now()
	s, err := t.open(ctx, t.registry, t.log.entry())
	if err != nil {
		c.add(Fault, "", err.Error())
		return false
	}
	c.took(time.Since(began))
	t.report.Events = s.program().Events
	for _, e := range t.report.Events { // in this order
		t.report.check(string(e))
	}
	t.ignoreSignals(ctx, s)
	t.leaveWithHost(s)
	return true
}

// ignoreSignals sends the signals that systemd and terminals send. The host decides when a hook
// ends: events follow.
func (t *test) ignoreSignals(ctx context.Context, s *session) {
	c := t.report.check(signals)
	defer c.done()
	pid := s.program().PID
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		syscall.Kill(pid, sig)
	}
	time.Sleep(200 * time.Millisecond)
	if s.program().PID != pid {
		c.add(Fault, "", "they end the program: only hookhost decides when it ends")
		_ = s.plugin().Start(ctx) // what follows says if it does not start again
	}
}

// leaveWithHost closes the lifeline, as the death of the host does, and then the session.
func (t *test) leaveWithHost(s *session) {
	c := t.report.check(lifeline)
	defer c.done()
	s.mu.Lock()
	fresh := s.fresh
	s.mu.Unlock()
	began := time.Now()
	select {
	case <-fresh.Orphan():
		c.took(time.Since(began))
	case <-time.After(patience):
		c.add(Fault, "", fmt.Sprintf("still runs %v after the end of file on HOOKHOST_LIFELINE_FD", patience))
	}
	s.close()
}

// readGarbage gives the program a configuration that is no text. It may ignore or refuse it.
func (t *test) readGarbage(ctx context.Context) error {
	c := t.report.check(garbage)
	defer c.done()
	r, err := t.register("garbage", []byte("\xff{ = \x00 not text"))
	if err != nil {
		return err
	}
	s, err := t.open(ctx, r, new(log).entry())
	if err == nil {
		s.close()
		return nil
	}
	start, _ := errors.AsType[*hostapi.Error](err) // of the host; the hook's is inside
	if _, own := errors.AsType[*hostapi.Error](errors.Unwrap(start.Err)); !own {
		c.add(Fault, "", fmt.Sprintf("must be answered with an error: %v", err))
	}
	return nil
}

// stopAfterLife ends the program after the last event, and notes what outlives that event.
func (t *test) stopAfterLife(s *session) {
	c := t.report.check(stop)
	defer c.done()
	if t.hasHelpers(s.program().PID) {
		c.note("a process that the program started still runs after the last event: hookhost kills it with the program")
	}
	took := s.close()
	c.took(took)
	if took > patience*3/4 {
		c.note("the program does not end when plugin.GRPCController/Shutdown is called: hookhost kills it")
	}
}

// hasHelpers reports whether other processes are in the session of the program.
func (t *test) hasHelpers(program int) bool {
	procfs, err := kernfs.Open("/proc")
	if err != nil || program == 0 {
		return false
	}
	pids, err := proc.NewSessions(procfs).PIDs(program)
	if err != nil {
		t.log.entry().Warn(err)
	}
	return len(pids) > 1
}
