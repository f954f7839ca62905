package conformance

import (
	"context"
	"syscall"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// manner is a way to send an event. It adds what is wrong to the check, and returns the last answer
// if the hook accepted.
type manner func(ctx context.Context, l *life, req *hostapi.Request, c *Check) (out *hostapi.Outcome, ok bool)

// twice sends the event, and sends it again: every event must be idempotent.
func twice(ctx context.Context, l *life, req *hostapi.Request, c *Check) (*hostapi.Outcome, bool) {
	began := time.Now()
	first := l.call(ctx, req)
	c.took(time.Since(began))
	if !c.accepted("", first) {
		return nil, false
	}
	again := l.call(ctx, req)
	return again.out, c.same("called again", first, again)
}

// killed kills the program in the middle of the event. The host starts it again and repeats the
// event, as it does after a crash and after an alarm. Each event has a new host: after five crashes
// a host would wait.
func killed(ctx context.Context, l *life, req *hostapi.Request, c *Check) (*hostapi.Outcome, bool) {
	const how = "killed during the event, started and called again"
	if err := l.open(ctx); err != nil {
		c.add(Fault, how, err.Error())
		return nil, false
	}
	answered := make(chan answer)
	go func() { answered <- l.call(ctx, req) }()
	time.Sleep(time.Duration(c.Seconds * float64(time.Second) / 2))
	if pid := l.program().PID; pid > 0 {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	first := <-answered // of the program that was killed, if it was faster
	if !c.accepted(how, first) {
		return nil, false
	}
	again := l.call(ctx, req)
	return again.out, c.same(how, first, again)
}

// once sends the event once.
func once(how string) manner {
	return func(ctx context.Context, l *life, req *hostapi.Request, c *Check) (*hostapi.Outcome, bool) {
		a := l.call(ctx, req)
		return a.out, c.accepted(how, a)
	}
}

// accepted adds what is wrong with an answer.
func (c *Check) accepted(how string, a answer) bool {
	for _, text := range a.remarks() {
		c.note(text)
	}
	result, text := a.judge()
	if result == OK {
		c.done()
		return true
	}
	if how != "" {
		result = Fault // the same event was accepted before
	}
	c.add(result, how, text)
	return false
}

// same adds what is wrong with a second answer to the same event.
func (c *Check) same(how string, first, again answer) bool {
	if !c.accepted(how, again) {
		return false
	}
	if text := again.differs(first); text != "" {
		c.add(Fault, how, text)
		return false
	}
	return true
}
