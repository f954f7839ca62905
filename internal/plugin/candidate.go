package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// Candidate is a program that has started and is not yet in service: only Host.Startup calls it.
type Candidate struct {
	plugin *Plugin
	inst   *instance
	hook   Hook
	dead   error
}

// Hook returns the hook as it was registered when the program had started.
func (c *Candidate) Hook() Hook { return c.hook }

// Gets reports whether the program handles the event and the hook is registered for it.
func (c *Candidate) Gets(e hostapi.Event) bool {
	return c.hook.Gets(e) && slices.Contains(c.inst.info.Events, e)
}

// Call carries out one event within the hook's alarm.
func (c *Candidate) Call(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(c.hook.Alarm)*time.Second, errAlarm)
	defer cancel()
	out, err := c.inst.client.Handle(ctx, req)
	switch {
	case late(ctx, err):
		c.dead = fmt.Errorf("given up in %s: %w", req.Event, context.Cause(ctx))
		if errors.Is(context.Cause(ctx), errAlarm) {
			c.dead = fmt.Errorf("no answer to %s within its alarm of %ds", req.Event, c.hook.Alarm)
		}
	case errors.Is(err, hostapi.ErrGone):
		c.inst.kill()
		c.dead = fmt.Errorf("crashed in %s: %s", req.Event, c.inst.cause())
	}
	c.plugin.trace(c.hook, req, out, err, time.Since(began))
	return out, err
}

// Orphan closes the program's lifeline, as the end of the host would. The program must end by
// itself; the channel is closed when it has.
func (c *Candidate) Orphan() (ended <-chan struct{}) {
	c.inst.host.Close()
	return c.inst.exited
}

// Err returns why the program is useless: a call crashed it, overran the alarm or was abandoned.
// The kind is KindNode.
func (c *Candidate) Err() error {
	if c.dead == nil {
		return nil
	}
	return hostapi.Errorf(hostapi.KindNode, "start hook %s: %w", c.hook.Name, c.dead)
}
