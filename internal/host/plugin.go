package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
)

// plugin supervises the program of one hook: it starts it, starts it again when it ended, and lets the breaker decide
// when that has to stop.
type plugin struct {
	launcher *launcher
	log      *logrus.Entry // with the hook's name
	// ready is called with every new instance before anything else is.
	ready func(context.Context, *plugin, *instance) error
	// heard is called with what an instance has to say between events; nil when nobody listens.
	heard func(p *plugin, job string, update *hostapi.JobUpdate) error

	ctx    context.Context // of the host; starts end with it
	cancel context.CancelFunc

	mu       sync.Mutex
	hook     Hook
	print    string          // fingerprint of hook when the program was last started
	known    []hostapi.Event // what the program handles; nil before it was first started
	inst     *instance       // running; nil when none is
	starting *start          // under way; nil when none is
	failure  error           // why none runs
	startup  string          // why it rejected exechost_startup; "" when it did not
	starts   int             // how often it was started
	breaker  breaker
	retry    *time.Timer
	retired  bool

	calls sync.WaitGroup // events under way; none is added after retired is set
	lives sync.WaitGroup // starts, and the watch over each instance
}

// start is one start of the program; inst and err are valid when done is closed.
type start struct {
	done chan struct{}
	inst *instance
	err  error
}

func newPlugin(ctx context.Context, l *launcher, h Hook, log *logrus.Entry, ready func(context.Context, *plugin, *instance) error) *plugin {
	p := &plugin{launcher: l, log: log.WithField("hook", h.Name), ready: ready, hook: h, print: fingerprint(h)}
	p.ctx, p.cancel = context.WithCancel(ctx)
	p.failure = h.fault()
	return p
}

// spec returns the hook as it is registered now.
func (p *plugin) spec() Hook {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hook
}

// warm starts the program without waiting for it. A hook that runs as the job's owner has to wait for a job.
func (p *plugin) warm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hook.User != UserOwner && p.inst == nil {
		p.begin()
	}
}

// get returns the running instance, started if need be.
func (p *plugin) get(ctx context.Context) (*instance, error) {
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
func (p *plugin) begin() (*start, error) {
	if p.retired {
		return nil, retiredError(p.hook.Name)
	}
	if err := p.hook.fault(); err != nil {
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
	h := p.hook
	p.starting = s
	p.starts++
	p.lives.Go(func() { p.run(s, h) })
	return s, nil
}

// run carries out a start and then watches over the instance until it ends.
func (p *plugin) run(s *start, h Hook) {
	began := time.Now()
	s.inst, s.err = p.launcher.launch(p.ctx, h, nil, p.log)
	if s.err == nil {
		p.learn(s.inst.info.Events)
		if s.err = p.ready(p.ctx, p, s.inst); s.err != nil {
			s.inst.kill()
			s.inst = nil
		}
	}
	p.mu.Lock()
	if s.err == nil && p.ctx.Err() != nil {
		// retire has looked for an instance already, or will find none.
		s.err = context.Cause(p.ctx)
		p.lives.Go(s.inst.kill)
		s.inst = nil
	}
	p.starting, p.inst, p.failure = nil, s.inst, s.err
	if s.err != nil && !p.retired && p.ctx.Err() == nil {
		p.log.Error(s.err)
		p.breaker.crash(time.Now())
		p.again()
	}
	p.mu.Unlock()
	close(s.done)
	if s.err != nil {
		return
	}
	if p.heard != nil {
		p.lives.Go(func() { p.listen(s.inst) })
	}
	p.log.WithFields(logrus.Fields{"pid": s.inst.proc.ID(), "took": time.Since(began).Round(time.Microsecond).String()}).Debug("hook started")
	<-s.inst.proc.exited
	p.lost(s.inst)
}

// again has the start tried again some time. p.mu is held.
func (p *plugin) again() {
	p.retry = time.AfterFunc(p.breaker.retry(time.Now()), p.warm)
}

// lost takes an instance that has ended, or that an alarm has ended, out of use and starts the next one at once: a hook may have
// watches to keep. Only the first call for an instance does anything.
func (p *plugin) lost(inst *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inst != inst {
		return
	}
	p.inst = nil
	if p.retired {
		p.lives.Go(inst.clean)
		return
	}
	if !inst.killed.Load() {
		p.failure = fmt.Errorf("hook %s: crashed: %s", p.hook.Name, inst.proc.cause())
		p.log.Error(p.failure)
	}
	p.breaker.crash(time.Now())
	p.lives.Go(inst.clean) // waits for the process, which an alarm found in a state where it cannot die
	if _, err := p.begin(); err != nil {
		p.failure = err
		p.log.Error(err)
		p.again()
	}
}

// started notes what the hook made of its exechost_startup.
func (p *plugin) started(v *Verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.startup = v.Message
	if v.Reject {
		p.log.WithField("event", hostapi.EventStartup).Error(v.Message)
	}
	for _, note := range v.Notes {
		p.log.WithField("event", hostapi.EventStartup).Info(note)
	}
}

// learn keeps what the program handles and tells what it was registered for in vain.
func (p *plugin) learn(events []hostapi.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = events
	for _, e := range p.hook.Event {
		if !slices.Contains(events, e) {
			p.log.Warnf("hook %s is registered for %s, which its program does not handle", p.hook.Name, e)
		}
	}
}

// gets tells whether the hook is to be called for the event. While nobody knows what the program handles it is.
func (p *plugin) gets(e hostapi.Event) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hook.Gets(e) && (p.known == nil || slices.Contains(p.known, e))
}

// ticks tells whether the program is known to be due for periodics, and how far apart. Before its first start nobody
// knows; startup sees to it then.
func (p *plugin) ticks() (freq time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(p.hook.Freq) * time.Second, p.hook.Gets(hostapi.EventPeriodic) && slices.Contains(p.known, hostapi.EventPeriodic)
}

// update gives the hook other attributes; false when its program has to be started anew for what h says.
func (p *plugin) update(h Hook) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.print != fingerprint(h) {
		return false
	}
	p.hook = h
	return true
}

// retire waits for the events under way, until ctx is done, and then ends the program for good.
func (p *plugin) retire(ctx context.Context) {
	p.mu.Lock()
	p.retired = true
	if p.retry != nil {
		p.retry.Stop()
	}
	p.mu.Unlock()
	waitFor(ctx, &p.calls)
	p.cancel()
	p.mu.Lock()
	if p.inst != nil {
		p.lives.Go(p.inst.clean)
	}
	p.mu.Unlock()
	// A program that cannot die (state D) is not waited for any longer than ctx allows.
	waitFor(ctx, &p.lives)
}

func waitFor(ctx context.Context, wg *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// fingerprint changes when the program has to be started anew.
func fingerprint(h Hook) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s %x %s", h.User, h.SHA256, h.Name, h.ConfigData, h.Fault)
	for _, path := range []string{h.Program, h.Config} {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil && path != "" {
			fmt.Fprintf(&b, " %v", err)
		}
		fmt.Fprintf(&b, " %s %d.%d %d.%d", path, st.Dev, st.Ino, st.Mtim.Nano(), st.Size)
	}
	return b.String()
}
