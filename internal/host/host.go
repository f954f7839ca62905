// Package host carries out the events of jobs: it starts the programs of the registered hooks, calls them in order and
// under their alarms, starts them again when they crash, and makes one outcome of theirs. It keeps what has to survive
// a restart in the job's record, and the clock for hooks that asked to be called again.
//
// The events of a job pass through Options.Sisters, in the job's turn, which has the job's other
// hosts carry them out as well.
//
// Events of one job are carried out one at a time, jobs in parallel. They keep the order in which
// they came, but that attaches and reports wait for all others, and users' for root's (queue.go).
//
// Each running hook is a process in a session of its own that dies with the host, however the host
// dies. Nothing here runs while nothing happens, but for exechost_periodic.
//
// The host touches no kernel file but those of its own children (spawner.go): cgroups and devices
// are the hooks' affair. The functions in Options tell it what it has to know of other processes.
package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/jobstate"
)

// ErrClosed is what events fail with when the host is closing.
var ErrClosed = errors.New("the host is closing")

// Host carries out events. Its methods may be called at the same time.
type Host struct {
	opt      Options
	log      *logrus.Entry
	launcher *launcher
	jobs     queues
	timers   *timers
	starts   *timers // jobs of pbs_mom that have begun and not started: see dropped.go
	batches  *batches
	sisters  Sisters
	attaches *attachLog
	clock    jobstate.Clock

	ctx    context.Context // ends with Close, after the events
	cancel context.CancelFunc
	begun  sync.WaitGroup // events; none is added after closed is set
	behind sync.WaitGroup // what goes on behind the events' back; likewise

	reloading sync.Mutex

	mu       sync.RWMutex
	plugins  []*plugin // enabled hooks in order; replaced, never changed
	waits    map[string]context.CancelFunc
	period   map[*plugin]*time.Timer
	ears     map[string]map[chan struct{}]bool // by job, see Notices
	awaited  map[[2]string]bool                // purpose and job, see inTurn
	adopting map[string]bool                   // jobs, see adopt
	asking   map[[2]string]bool                // hook and job, see rang
	reports  map[string]chan struct{}          // by job, see askBeside
	started  map[string]bool                   // by home of pbs_mom, see startUpLate
	closed   bool
}

const defaultStart = 30 * time.Second

// Open reads the registry and starts the programs of all enabled hooks in the background. A program that does not start, and a
// hook's file that cannot be used, fail the events that need the hook, not Open. The jobs in the store are this host's from then on:
// no other host may use the store.
func Open(o Options) (*Host, error) {
	hooks, err := o.Registry.List()
	if err != nil {
		return nil, err
	}
	sockets, err := newSocketDir(o.RuntimeDir)
	if err != nil {
		return nil, err
	}
	if o.StartTimeout <= 0 {
		o.StartTimeout = defaultStart
	}
	clock, err := jobstate.NewClock(o.Self.BootID)
	if err != nil {
		return nil, errors.Join(err, sockets.remove())
	}
	h := &Host{
		opt: o, log: o.Log, clock: clock, waits: make(map[string]context.CancelFunc), period: make(map[*plugin]*time.Timer),
		launcher: &launcher{
			paths: o.Registry.paths(), spawn: newSpawner(), sockets: sockets,
			limit: o.StartTimeout, node: o.Node, settings: o.Settings,
		},
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.batches = &batches{call: h.callDue, start: h.behindIt}
	h.timers = newTimers(h.rang)
	h.starts = newTimers(func(job, _ string, _ bool) { h.dropUnstarted(job) })
	h.sisters = alone{}
	if o.Sisters != nil {
		h.sisters = o.Sisters(inside{h})
	}
	h.attaches = newAttachLog()
	h.keep(hooks)
	h.plugins = h.arrange(nil, hooks)
	for _, p := range h.plugins {
		p.warm()
	}
	h.takeOver()
	return h, nil
}

// arrange returns the plugins of the enabled hooks in order: those of old whose programs need not be started anew, new
// ones for the rest.
func (h *Host) arrange(old []*plugin, hooks []Hook) []*plugin {
	var next []*plugin
	for _, hook := range hooks {
		if !hook.Enabled || hook.Program == "" && hook.Fault == "" { // one without a program is still being registered
			continue
		}
		i := slices.IndexFunc(old, func(p *plugin) bool { return p.spec().Name == hook.Name && p.update(hook) })
		if i >= 0 {
			next = append(next, old[i])
		} else {
			p := newPlugin(h.ctx, h.launcher, hook, h.log, h.startup)
			p.heard = h.heard
			next = append(next, p)
		}
	}
	return next
}

// Reload reads the registry again. Hooks that are new or changed in program or configuration are started; those that
// are gone or changed end after the calls they are in; the others run on with their new attributes. An event under way
// goes on with the successors of changed hooks, and without those that are gone. Of a hook whose file has become unusable what
// is in force stays. On an error nothing changes.
func (h *Host) Reload(ctx context.Context) error {
	h.reloading.Lock()
	defer h.reloading.Unlock()
	hooks, err := h.opt.Registry.List()
	if err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	h.keep(hooks)
	slices.SortStableFunc(hooks, byOrder)
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return fmt.Errorf("reload: %w", ErrClosed)
	}
	old := h.plugins
	before := rhythmsOf(old)
	h.plugins = h.arrange(old, hooks)
	kept := rhythmsOf(h.plugins)
	var names []string
	for _, p := range h.plugins {
		if !slices.Contains(old, p) {
			p.warm()
		}
		names = append(names, p.spec().Name)
	}
	var gone sync.WaitGroup
	for _, p := range old {
		if slices.Contains(h.plugins, p) {
			continue
		}
		if t := h.period[p]; t != nil {
			t.Stop()
			delete(h.period, p)
		}
		h.behind.Add(1)
		gone.Go(func() { defer h.behind.Done(); p.retire(h.ctx) })
	}
	h.mu.Unlock()
	for p, now := range kept {
		if was, ok := before[p]; ok && was != now {
			h.reschedule(p)
		}
	}
	h.rearm(names)
	waitFor(ctx, &gone)
	return nil
}

// Hooks returns every registered hook and how its program does, in order.
func (h *Host) Hooks() ([]Status, error) {
	hooks, err := h.opt.Registry.List()
	var list []Status
	for _, hook := range hooks {
		s := Status{Hook: hook, State: "disabled"}
		if p := h.plugin(hook.Name); p != nil {
			s = p.status()
		}
		if err := hook.fault(); err != nil { // what runs may be what was there before
			s.Error = err.Error()
		}
		list = append(list, s)
	}
	return list, err
}

// links returns the places of the hooks as they are now. A hook that is registered later gets the events that begin later.
func (h *Host) links() []link {
	h.mu.RLock()
	defer h.mu.RUnlock()
	links := make([]link, len(h.plugins))
	for i, p := range h.plugins {
		links[i] = place{h, p.spec().Name}
	}
	return links
}

func (h *Host) plugin(name string) *plugin {
	h.mu.RLock()
	defer h.mu.RUnlock()
	i := slices.IndexFunc(h.plugins, func(p *plugin) bool { return p.spec().Name == name })
	if i < 0 {
		return nil
	}
	return h.plugins[i]
}

// enter counts something in that Close waits for; false when it is too late.
func (h *Host) enter(wg *sync.WaitGroup) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.closed {
		return false
	}
	wg.Add(1)
	return true
}

// behindIt runs f in the background until Close, unless that has come.
func (h *Host) behindIt(f func()) {
	if h.enter(&h.behind) {
		go func() { defer h.behind.Done(); f() }()
	}
}

// Close takes no further event, waits for those begun, until ctx is done, and ends the hooks' programs. Jobs live on, and so do
// their records. After Close no process and no socket of the host is left.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	for _, t := range h.period {
		t.Stop()
	}
	plugins := h.plugins
	h.mu.Unlock()

	h.timers.stop()
	h.starts.stop()
	waitFor(ctx, &h.begun)
	h.cancel()
	var ends sync.WaitGroup
	for _, p := range plugins {
		ends.Go(func() { p.retire(ctx) })
	}
	ends.Wait()
	waitFor(ctx, &h.behind)
	h.launcher.spawn.close()
	err := h.launcher.sockets.remove()
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		return fmt.Errorf("close host: %w", err)
	}
	return nil
}
