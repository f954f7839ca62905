package plugin

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
)

// start is one start of the program; inst and err are valid when done is closed.
type start struct {
	done chan struct{}
	inst *instance
	err  error
}

// start starts the program without waiting for it.
func (p *Plugin) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inst == nil {
		p.begin()
	}
}

// AwaitStart waits until a start that is under way has succeeded or failed, or ctx is done.
func (p *Plugin) AwaitStart(ctx context.Context) {
	p.mu.Lock()
	s := p.starting
	p.mu.Unlock()
	if s == nil {
		return
	}
	select {
	case <-s.done:
	case <-ctx.Done():
	}
}

// Start returns when the hook's program runs, starting it if necessary. Idempotent. It fails like
// an event whose hook cannot be started.
func (p *Plugin) Start(ctx context.Context) error {
	_, err := p.instanceFor(ctx)
	return err
}

// instanceFor returns the running instance, starting it if necessary.
func (p *Plugin) instanceFor(ctx context.Context) (*instance, error) {
	p.mu.Lock()
	if inst := p.inst; inst != nil {
		p.mu.Unlock()
		return inst, nil
	}
	s, err := p.begin()
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case <-s.done:
		return s.inst, s.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// begin begins a start, unless one is under way. p.mu is held.
func (p *Plugin) begin() (*start, error) {
	if p.retired {
		return nil, retiredError(p.hook.Name)
	}
	if err := p.hook.err(); err != nil {
		return nil, err
	}
	if p.starting != nil {
		return p.starting, nil
	}
	if err := p.breaker.check(time.Now()); err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "hook %s: %w", p.hook.Name, err)
	}
	if p.retry != nil {
		p.retry.Stop()
	}
	s := &start{done: make(chan struct{})}
	h, ended := p.hook, p.ended
	p.starting = s
	p.starts++
	p.lives.Go(func() {
		p.awaitBefore(p.ctx)
		if ended != nil {
			<-ended
		}
		p.run(s, h)
	})
	return s, nil
}

// run carries out a start. A hook has one program at a time, so all earlier ones have ended.
func (p *Plugin) run(s *start, h Hook) {
	began := time.Now()
	complaint := ""
	s.inst, s.err = p.launcher.launch(p.ctx, h, p.log)
	if s.err == nil {
		p.setEvents(s.inst.info.Events)
		fresh := &Candidate{plugin: p, inst: s.inst, hook: p.Hook()}
		complaint = p.host.Startup(p.ctx, p, fresh)
		if s.err = fresh.Err(); s.err != nil {
			s.inst.kill()
			s.inst = nil
		}
	}
	p.mu.Lock()
	p.startup = complaint
	if s.err == nil && p.ctx.Err() != nil {
		// retire has already looked for an instance, or will find none.
		s.err = context.Cause(p.ctx)
		p.lives.Go(s.inst.kill)
		s.inst = nil
	}
	p.starting, p.inst, p.failure = nil, s.inst, s.err
	if s.err != nil && !p.retired && p.ctx.Err() == nil {
		p.log.Error(s.err)
		p.crash()
		p.retryLater()
	}
	p.mu.Unlock()
	close(s.done)
	if s.err != nil {
		return
	}
	go func() { <-s.inst.exited; p.drop(s.inst) }()
	took := time.Since(began).Round(time.Microsecond)
	p.log.WithFields(logrus.Fields{"pid": s.inst.pid(), "took": took.String()}).Debug("hook started")
}

// awaitBefore waits until the programs before this one have ended, or ctx is done.
func (p *Plugin) awaitBefore(ctx context.Context) {
	if p.before == nil {
		return
	}
	late := time.AfterFunc(time.Second, func() { p.log.Warn(replaced) })
	defer late.Stop()
	select {
	case <-p.before:
	case <-ctx.Done():
	}
}

// replaced explains why a start takes long.
const replaced = "waiting for the program that it replaces to end"

// waits reports whether an earlier program has not ended yet.
func (p *Plugin) waits() bool {
	select {
	case <-p.before:
		return false
	default:
		return p.before != nil
	}
}

// crash records a crash, or a start that has failed. p.mu is held.
func (p *Plugin) crash() {
	p.crashes++
	p.breaker.crash(time.Now())
}

// retryLater schedules the next try of the start. p.mu is held.
func (p *Plugin) retryLater() {
	p.retry = time.AfterFunc(p.breaker.retry(time.Now()), p.start)
}
