// Package host carries out the events of jobs. The host calls the registered hooks in order and
// under their alarms, and makes one outcome of theirs. The job's record has what is to survive a
// restart. The host also has the clock for hooks that asked to be called again. internal/plugin
// runs the hooks' programs.
//
// Events of one job are carried out one at a time, jobs in parallel. They keep the order in which
// they came. Attaches and reports come after all other events; requests of users come last
// (queue.go).
//
// Nothing here runs while nothing happens, but for exechost_periodic.
//
// The host touches no kernel file: cgroups and devices are the hooks' affair. The functions in
// Options tell it what it has to know of processes.
package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/plugin"
)

// ErrClosed is what events fail with when the host is closing.
var ErrClosed = plugin.ErrClosed

// Host carries out events. Its methods may be called at the same time. Each part has its own lock.
type Host struct {
	opt   Options
	log   *logrus.Entry
	clock jobstate.Clock

	work
	ctx    context.Context // ends with Close, after the events
	cancel context.CancelFunc

	plugins   *plugin.Catalog
	jobs      queues
	timers    *timers
	batches   *batches
	periodics periodics
	attaches  *attachLog
	adopter   adopter
	dropper   *dropper
	moms      momWatch
	started   startedMoMs
	counters  counters
	awaited   busy[[2]string] // purpose and job, see inTurn
}

// Open reads the registry and starts the programs of all enabled hooks in the background. A program
// that does not start, and a hook's file that cannot be used, fail the events that need the hook,
// not Open. The jobs in the store are this host's from then on: no other host may use the store.
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
	h.adopter = adopter{opt: &h.opt, host: h, lines: h.attaches, taken: &h.counters.adopted}
	h.dropper = newDropper(h)
	h.plugins.Start()
	h.adoptRecords()
	return h, nil
}

// AwaitStart waits until each hook's program has started for the first time, or has failed to, but
// no longer than StartTimeout. Jobs that hooks have found have their records then.
func (h *Host) AwaitStart(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, h.opt.StartTimeout)
	defer cancel()
	for _, p := range h.plugins.List() {
		p.AwaitStart(ctx)
	}
}

// Reload reads the registry again. Hooks that are gone or changed in program or configuration end
// after the calls they are in, for which Reload waits until ctx ends. Hooks that are new are
// started, and changed ones once the program before has ended. The others run on with their new
// attributes. An event under way goes on with the successors of changed hooks. On an error nothing
// changes.
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

// Hooks returns every registered hook and how its program does, in order.
func (h *Host) Hooks() ([]plugin.Status, error) { return h.plugins.Status() }

// links returns the hooks as they are now, in order.
func (h *Host) links() []link {
	var links []link
	for _, place := range h.plugins.Places() {
		links = append(links, place)
	}
	return links
}

// Close takes no further event, waits for those begun, until ctx is done, and ends the hooks'
// programs. Jobs live on, and so do their records. After Close no process and no socket of the host
// is left.
func (h *Host) Close(ctx context.Context) error {
	if !h.work.close() {
		return nil
	}
	h.periodics.stop()
	h.timers.stop()
	h.dropper.stop()
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
