// Package host carries out the events of jobs. It calls the registered hooks in order, under their
// alarms, and merges their outcomes into one. The job's record holds everything that must survive a
// restart. The host also keeps the timers of hooks that asked to be called again. internal/plugin
// runs the hooks' programs.
//
// Events of one job are carried out one at a time, jobs in parallel. Events keep the order in which
// they came. Attaches and reports come after all other events; requests of users come last
// (turn.go). event.go lists the stages of an event.
//
// While nothing happens, nothing runs here except exechost_periodic.
//
// The host touches no kernel files: hooks deal with cgroups and devices. The functions in Options
// answer its questions about processes.
package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/plugin"
)

// ErrClosed is the error of events while the host is closing.
var ErrClosed = plugin.ErrClosed

// Host carries out events. Several goroutines may call its methods at the same time. Each part has
// its own lock.
type Host struct {
	opt   Options
	log   *logrus.Entry
	clock jobstate.Clock

	work
	ctx    context.Context // ends with Close, after the events
	cancel context.CancelFunc

	plugins   *plugin.Catalog
	turns     turns
	timers    *timers
	batches   *batches
	periodics periodics
	attaches  *attachLog
	adopting  busy[string] // jobs: see adopt
	unstarted *timers      // of jobs that have begun and not started
	runners   runnerWatch
	started   startedMoMs
	missed    missedEvents
	counters  counters
	awaited   busy[[2]string] // purpose and job, see inTurn and tick
}

// Open reads the registry and starts the programs of all enabled hooks in the background. Open does
// not fail because a program does not start or a hook's file cannot be used. Instead, the events
// that need that hook fail. From then on this host owns the jobs in the store: no other host may
// use it.
func Open(o Options) (*Host, error) {
	clock, err := jobstate.NewClock(o.Self.BootID)
	if err != nil {
		return nil, err
	}
	h := &Host{opt: o, log: o.Log, clock: clock, attaches: newAttachLog()}
	h.plugins, err = plugin.Open(plugin.Options{
		Registry: o.Registry, RuntimeDir: o.RuntimeDir, StartTimeout: o.StartTimeout, Log: o.Log,
		Host: pluginHost{h},
	})
	if err != nil {
		return nil, err
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.batches = &batches{call: h.callDue, start: h.goBackground}
	h.timers = newTimers(h.batches.add)
	h.periodics.tick = func(p *plugin.Plugin) { h.goBackground(func() { h.tick(p) }) }
	h.unstarted = newTimers(func(_, job string) { h.dropUnstarted(job) })
	h.plugins.Start()
	h.adoptRecords()
	return h, nil
}

// AwaitStart waits until the program of each hook has started for the first time or failed to
// start, at most StartTimeout. By then the jobs that hooks have found have records.
func (h *Host) AwaitStart(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, h.opt.StartTimeout)
	defer cancel()
	for _, p := range h.plugins.List() {
		p.AwaitStart(ctx)
	}
}

// Reload reads the registry again. Hooks that were removed, or whose program or configuration
// changed, stop after their current calls; Reload waits for these until ctx ends. New hooks are
// started. A changed hook is started once its old program has stopped. The others keep running with
// their new attributes. An event under way continues with the successors of changed hooks. On an
// error nothing changes.
func (h *Host) Reload(ctx context.Context) error {
	wait, err := h.plugins.Reload()
	if err != nil {
		return err
	}
	h.periodics.follow(h.plugins.List())
	h.rearm()
	wait(ctx)
	return nil
}

// Hooks returns every registered hook with the state of its program, in order.
func (h *Host) Hooks() ([]plugin.Status, error) { return h.plugins.Status() }

// links returns the current hooks, in order.
func (h *Host) links() []link {
	var links []link
	for _, place := range h.plugins.Places() {
		links = append(links, place)
	}
	return links
}

// Close accepts no more events, waits until ctx is done for those that have begun, and stops the
// hooks' programs. Jobs live on, and so do their records. After Close, no process and no socket of
// the host is left.
func (h *Host) Close(ctx context.Context) error {
	if !h.work.close() {
		return nil
	}
	h.periodics.stop()
	h.timers.stop()
	h.unstarted.stop()
	waitFor(ctx, &h.events)
	h.cancel()
	err := h.plugins.Close(ctx)
	waitFor(ctx, &h.background)
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		return fmt.Errorf("close host: %w", err)
	}
	return nil
}
