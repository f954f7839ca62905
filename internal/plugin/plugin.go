package plugin

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

// Host is what hooks' programs belong to. Its methods may be called at the same time.
type Host interface {
	// Startup has a new program carry out its first events, before any other reaches it. complaint
	// is the text of a rejection.
	Startup(ctx context.Context, p *Plugin, fresh *Candidate) (complaint string)
	// Notice takes over what a hook has to say of a job between events. An error is logged.
	Notice(hook, job string, update *hostapi.JobUpdate) error
	// Called is told of each call of a hook that is over. Called must not wait.
	Called(hook string, out *hostapi.Outcome, err error, took time.Duration)
}

// Plugin supervises the program of one hook, and starts it again after its end. The breaker decides
// when that has to stop. The methods may be called at the same time.
type Plugin struct {
	launcher *launcher
	host     Host
	log      *logrus.Entry // with the hook's name

	ctx    context.Context // starts end with it
	cancel context.CancelFunc

	after <-chan struct{} // closed when the program before this one is gone; nil where there was none
	gone  chan struct{}   // closed when this one has retired

	mu       sync.Mutex
	hook     Hook
	print    string          // fingerprint of hook when the program was last started
	known    []hostapi.Event // what the program handles; nil before it was first started
	inst     *instance       // running; nil when none is
	starting *start          // under way; nil when none is
	failure  error           // why none runs
	startup  string          // why the running one rejected exechost_startup; "" when it did not
	starts   int             // how often it was started
	crashes  int             // ends that nobody asked for, alarms included, and starts that failed
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

// supervise returns the Plugin of a hook, whose program start or the first Call starts. Starts end
// with ctx.
func supervise(ctx context.Context, l *launcher, host Host, h Hook) *Plugin {
	p := &Plugin{
		launcher: l, host: host, log: l.log.WithField("hook", h.Name), hook: h, print: fingerprint(h),
		gone: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(ctx)
	p.failure = h.err()
	return p
}

// Hook returns the hook as it is registered now.
func (p *Plugin) Hook() Hook {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hook
}

// start starts the program without waiting for it. A hook that runs as the job's owner has to wait
// for a job.
func (p *Plugin) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hook.User != userOwner && p.inst == nil {
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

// Start returns when the hook's program runs, started if need be. Idempotent. Start fails as an
// event does whose hook cannot be started.
func (p *Plugin) Start(ctx context.Context) error {
	_, err := p.instanceFor(ctx)
	return err
}

// instanceFor returns the running instance, started if need be.
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
	h := p.hook
	p.starting = s
	p.starts++
	p.lives.Go(func() { p.run(s, h) })
	return s, nil
}

// run carries out a start and then watches over the instance until it ends. A hook has one program
// at a time: the start waits for the end of the one that a reload has replaced.
func (p *Plugin) run(s *start, h Hook) {
	if p.after != nil {
		select {
		case <-p.after:
		case <-p.ctx.Done():
		}
	}
	began := time.Now()
	complaint := ""
	s.inst, s.err = p.launcher.launch(p.ctx, h, nil, p.log)
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
		// retire has looked for an instance already, or will find none.
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
	p.lives.Go(func() { p.listen(s.inst) })
	took := time.Since(began).Round(time.Microsecond)
	p.log.WithFields(logrus.Fields{"pid": s.inst.proc.ID(), "took": took.String()}).Debug("hook started")
	<-s.inst.proc.exited
	p.drop(s.inst)
}

// crash notes a crash, or a start that has failed. p.mu is held.
func (p *Plugin) crash() {
	p.crashes++
	p.breaker.crash(time.Now())
}

// retryLater schedules the next try of the start. p.mu is held.
func (p *Plugin) retryLater() {
	p.retry = time.AfterFunc(p.breaker.retry(time.Now()), p.start)
}

// drop takes an instance that has ended, or that an alarm has ended, out of use. The next one
// starts at once: a hook may have watches to keep. Only the first call for an instance does
// anything.
func (p *Plugin) drop(inst *instance) {
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
	p.crash()
	p.lives.Go(inst.clean) // waits for the process, which an alarm found in a state where it cannot die
	if _, err := p.begin(); err != nil {
		p.failure = err
		p.log.Error(err)
		p.retryLater()
	}
}

// setEvents notes what the program handles and tells what it was registered for in vain.
func (p *Plugin) setEvents(events []hostapi.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = events
	for _, e := range p.hook.Event {
		if !slices.Contains(events, e) {
			p.log.Warnf("hook %s is registered for %s, which its program does not handle", p.hook.Name, e)
		}
	}
}

// Gets reports whether the hook is to be called for the event. While nobody knows what the program
// handles it is.
func (p *Plugin) Gets(e hostapi.Event) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hook.Gets(e) && (p.known == nil || slices.Contains(p.known, e))
}

// Period returns the time between the hook's periodics. ok is false if it gets none, or if its
// program was never started.
func (p *Plugin) Period() (freq time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.hook.Gets(hostapi.EventPeriodic) || !slices.Contains(p.known, hostapi.EventPeriodic) {
		return 0, false
	}
	return time.Duration(p.hook.Freq) * time.Second, true
}

// update replaces the attributes. The result is false, and nothing changes, if h needs a new
// process.
func (p *Plugin) update(h Hook) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.print != fingerprint(h) {
		return false
	}
	p.hook = h
	return true
}

// retire waits for the events under way, until ctx is done, and then ends the program for good.
func (p *Plugin) retire(ctx context.Context) {
	defer close(p.gone)
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
