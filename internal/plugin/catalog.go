package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
)

// ErrClosed is the error of Reload after Close has begun.
var ErrClosed = errors.New("the host is closing")

// Options are the parts of a Catalog. All but Dial are required.
type Options struct {
	Registry *Registry
	// RuntimeDir is for sockets and is replaced. Nobody else may use it.
	RuntimeDir string
	// StartTimeout is how long a program may take to start.
	StartTimeout time.Duration
	Log          *logrus.Entry
	Host         Host
	Dial         []grpc.DialOption // of the connections to programs, such as interceptors for tests
}

// Catalog holds the hooks in force and their programs, in the order in which they run. Its methods
// may be called at the same time.
type Catalog struct {
	registry *Registry
	launcher *launcher
	host     Host

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	reloading sync.Mutex
	retiring  sync.WaitGroup

	mu      sync.RWMutex
	plugins []*Plugin                  // of the enabled hooks in order; replaced, never changed
	gone    map[string]<-chan struct{} // of the last Plugin of each hook, which may now be disabled
	closed  bool
}

// Open reads the registry. Start starts the programs. A hook's file that cannot be used is not an
// error: instead, the hook's events fail.
func Open(o Options) (*Catalog, error) {
	hooks, err := o.Registry.List()
	if err != nil {
		return nil, err
	}
	l, err := newLauncher(o.Registry, o.RuntimeDir, o.StartTimeout, o.Log)
	if err != nil {
		return nil, err
	}
	l.dial = o.Dial
	c := &Catalog{registry: o.Registry, launcher: l, host: o.Host, gone: map[string]<-chan struct{}{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for _, hook := range hooks {
		if err := hook.err(); err != nil {
			o.Log.WithField("hook", hook.Name).Errorf("%v; its events fail until it is corrected or deleted", err)
		}
	}
	c.plugins = c.arrange(nil, hooks)
	return c, nil
}

// Start starts the programs in the background. If a program does not start, the events that need
// its hook fail.
func (c *Catalog) Start() {
	for _, p := range c.List() {
		p.start()
	}
}

// arrange returns the plugins of the enabled hooks in order. It keeps a plugin in old whose program
// need not be restarted.
func (c *Catalog) arrange(old []*Plugin, hooks []Hook) []*Plugin {
	var next []*Plugin
	for _, hook := range hooks {
		if !hook.Enabled || hook.Program == "" && hook.Fault == "" { // one without a program is still being registered
			continue
		}
		i := slices.IndexFunc(old, func(p *Plugin) bool { return p.Hook().Name == hook.Name && p.update(hook) })
		if i >= 0 {
			next = append(next, old[i])
		} else {
			p := supervise(c.ctx, c.launcher, c.host, hook, c.gone[hook.Name])
			c.gone[hook.Name] = p.gone
			next = append(next, p)
		}
	}
	return next
}

// Reload reads the registry again. Hooks that were removed, or whose program or configuration
// changed, stop after their current calls; wait waits for these until its ctx ends. New hooks are
// started. A changed hook is started once its old program has stopped. The others keep running with
// their new attributes. On an error, such as a hook's file that cannot be used, nothing changes.
func (c *Catalog) Reload() (wait func(ctx context.Context), err error) {
	c.reloading.Lock()
	defer c.reloading.Unlock()
	hooks, err := c.registry.List()
	for _, hook := range hooks {
		if hook.Enabled { // nobody calls the others
			err = errors.Join(err, hook.err())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reload: %w", err)
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, fmt.Errorf("reload: %w", ErrClosed)
	}
	old := c.plugins
	c.plugins = c.arrange(old, hooks)
	next := c.plugins
	gone := new(sync.WaitGroup)
	for _, p := range old {
		if !slices.Contains(next, p) {
			c.retiring.Add(1)
			gone.Go(func() { defer c.retiring.Done(); p.retire(c.ctx) })
		}
	}
	c.mu.Unlock()
	for _, p := range next {
		if !slices.Contains(old, p) {
			p.start()
		}
	}
	return func(ctx context.Context) { waitFor(ctx, gone) }, nil
}

// List returns the plugins of the enabled hooks in order.
func (c *Catalog) List() []*Plugin {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.plugins
}

// Find returns the plugin of an enabled hook, or nil.
func (c *Catalog) Find(name string) *Plugin {
	plugins := c.List()
	i := slices.IndexFunc(plugins, func(p *Plugin) bool { return p.Hook().Name == name })
	if i < 0 {
		return nil
	}
	return plugins[i]
}

// Status returns every registered hook with the state of its program, in order.
func (c *Catalog) Status() ([]Status, error) {
	hooks, err := c.registry.List()
	var list []Status
	for _, hook := range hooks {
		s := Status{Hook: hook, State: "disabled"}
		if p := c.Find(hook.Name); p != nil {
			s = p.status()
		}
		if err := hook.err(); err != nil { // the running program may be of the previous version
			s.Error = err.Error()
		}
		list = append(list, s)
	}
	return list, err
}

// Programs returns the hooks in force with the state of their programs, in order. It reads no file.
func (c *Catalog) Programs() []Status {
	var list []Status
	for _, p := range c.List() {
		list = append(list, p.status())
	}
	return list
}

// Close waits for the calls under way, until ctx is done, and stops the programs. After Close, no
// process and no socket of these programs is left. Idempotent.
func (c *Catalog) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	for _, p := range c.List() {
		c.retiring.Go(func() { p.retire(ctx) })
	}
	waitFor(ctx, &c.retiring)
	return c.launcher.close()
}
