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

// Host is the owner of hooks' programs. Its methods may be called at the same time.
type Host interface {
	// Startup carries out the first events of a new program, before it gets any other. complaint is
	// the text of a rejection.
	Startup(ctx context.Context, p *Plugin, fresh *Candidate) (complaint string)
	// Called is called after each call of a hook. It must not wait.
	Called(hook string, out *hostapi.Outcome, err error, took time.Duration)
}

// Plugin supervises the program of one hook, and restarts it when it ends, until the breaker stops
// that. The methods may be called at the same time.
type Plugin struct {
	launcher *launcher
	host     Host
	log      *logrus.Entry // with the hook's name

	ctx    context.Context // starts end with it
	cancel context.CancelFunc

	before <-chan struct{} // closed when all earlier programs have ended; nil if there was none
	gone   chan struct{}   // closed when this one's program has also ended, for good

	mu       sync.Mutex
	hook     Hook
	print    string          // fingerprint of hook when the program was last started
	known    []hostapi.Event // what the program handles; nil before it was first started
	inst     *instance       // running; nil when none is
	starting *start          // under way; nil when none is
	failure  error           // why none runs
	startup  string          // why the running one rejected exechost_startup; "" if it did not
	starts   int             // how often it was started
	crashes  int             // unexpected ends, alarms included, and starts that failed
	breaker  breaker
	retry    *time.Timer
	ended    <-chan struct{} // closed when the last instance has ended, or is abandoned; nil if there was none
	retired  bool

	calls sync.WaitGroup // events under way; none is added after retired is set
	lives sync.WaitGroup // starts and ends of instances
}

// supervise returns the Plugin of a hook. start or the first Call starts its program. Starts end
// with ctx. before is closed when the hook's last program has ended; nil if there was none.
func supervise(ctx context.Context, l *launcher, host Host, h Hook, before <-chan struct{}) *Plugin {
	p := &Plugin{
		launcher: l, host: host, log: l.log.WithField("hook", h.Name), hook: h, print: fingerprint(h),
		before: before, gone: make(chan struct{}),
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

// drop stops using an instance that has ended, or that an alarm has killed. The next one starts
// when it is dead, because a hook may have jobs to watch. Only the first call for an instance has
// an effect.
func (p *Plugin) drop(inst *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inst != inst {
		return
	}
	p.inst = nil
	ended := make(chan struct{})
	p.ended = ended
	p.lives.Go(func() { defer close(ended); inst.kill() })
	if p.retired {
		return
	}
	if inst.killed.Load() {
		p.failure = fmt.Errorf("program %d was killed by an alarm: waiting up to %v for it to end",
			inst.pid(), killGrace)
	} else {
		p.failure = fmt.Errorf("hook %s: crashed: %s", p.hook.Name, inst.cause())
		p.log.Error(p.failure)
	}
	p.crash()
	if _, err := p.begin(); err != nil {
		p.failure = err
		p.log.Error(err)
		p.retryLater()
	}
}

// setEvents records the events that the program handles, and logs registered events that it does
// not handle.
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

// Gets reports whether the hook will be called for the event. It returns true as long as the
// program's events are unknown.
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

// update replaces the attributes. If h needs a new process, it returns false and changes nothing.
func (p *Plugin) update(h Hook) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.print != fingerprint(h) {
		return false
	}
	p.hook = h
	return true
}

// retire waits for the events under way, until ctx is done, and then ends the program permanently.
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
	if inst := p.inst; inst != nil {
		p.inst = nil
		p.lives.Go(inst.stop)
	}
	p.mu.Unlock()
	// For a program that cannot die (state D), ctx limits the wait.
	waitFor(ctx, &p.lives)
	p.awaitBefore(ctx) // a program replaced before its start may itself have a predecessor that still runs
}

func waitFor(ctx context.Context, wg *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// fingerprint changes when the program has to be restarted.
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
