package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/ledger"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/sister"
)

// backend is what the API serves.
type backend struct {
	cli      *cli
	host     *host.Host
	store    *jobstate.Store
	numbers  sync.Mutex // over jobstate.NextNumber
	ledger   *ledger.Ledger
	log      *logrus.Entry
	cfg      *config.File // that is in force
	complete func()       // makes missing records anew from the cgroup tree
	procfs   *kernfs.FS
	tree     *cgroup.Tree
	node     string
	since    time.Time
	sister   atomic.Pointer[config.Sister] // of cfg
	openPBS  atomic.Pointer[config.OpenPBS]
	fleet    *sister.Fleet      // nil: this host talks to no other
	identity *api.Identity      // this host's, for the fleet and those who call; nil likewise
	heads    *sister.Heads      // likewise
	watches  sync.WaitGroup     // heads at work
	unwatch  context.CancelFunc // ends it
	origins  *origins
	refusals refusals
	damaged  atomic.Pointer[string] // what the log has of damage in the ledger
	reloaded sync.Mutex             // over registry and cfg
	pbs      fromPBS
	learning sync.Mutex // over the vntype

	registry *host.Registry
}

// Handle carries out an event.
func (b *backend) Handle(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if err := checkResources(req); err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "%w", err)
	}
	if err := b.learn(ctx, req); err != nil {
		b.log.Error(err) // the event goes on as the node was known before
	}
	out, err := b.host.Handle(ctx, req)
	if err == nil && !out.Reject && req.Event == hostapi.EventBegin && req.Head != "" && b.heads != nil {
		b.heads.Begun()
	}
	return out, err
}

// HandleUser carries out what a user asks for: an attach, to a job that is known.
func (b *backend) HandleUser(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return b.host.HandleUser(ctx, req)
}

// Node returns what this host is and how its hooks do.
func (b *backend) Node(context.Context) (api.NodeInfo, error) {
	b.reloaded.Lock()
	defer b.reloaded.Unlock()
	info := api.NodeInfo{Version: version, PID: os.Getpid(), Node: b.node, Mode: b.tree.Mode().String(), Since: b.since,
		Refused: b.refusals.counts(), Config: b.configInfo()}
	hooks, err := b.host.Hooks()
	for _, h := range hooks {
		info.Hooks = append(info.Hooks, api.HookInfo{Name: h.Name, State: h.State, PID: h.PID, Order: h.Order, Events: h.Events,
			Restarts: h.Restarts, Error: h.Error})
	}
	return info, err
}

// Reload reads the configuration and the registered hooks again. On an error everything stays as it is.
func (b *backend) Reload(ctx context.Context) error {
	b.reloaded.Lock()
	defer b.reloaded.Unlock()
	s, err := b.cli.loadSettings()
	if err == nil {
		err = b.take(ctx, s.file)
	}
	return b.note(s, err)
}

// resolve resolves the configuration in force once more, since what its conditions depend on has changed. What somebody is
// writing into the file meanwhile waits for a reload.
func (b *backend) resolve(ctx context.Context) error {
	b.reloaded.Lock()
	defer b.reloaded.Unlock()
	here, err := hereWith(&b.cfg.OpenPBS)
	if err != nil {
		return err
	}
	cfg, err := b.cfg.For(here)
	if err != nil {
		return err
	}
	return b.take(ctx, cfg)
}

// take puts a configuration in force; b.reloaded is held.
func (b *backend) take(ctx context.Context, cfg *config.File) error {
	if err := b.keeps(cfg); err != nil {
		return err
	}
	hooks, err := builtIn(cfg)
	if err != nil {
		return err
	}
	old := b.registry.BuiltIn
	b.registry.BuiltIn = hooks
	b.complete()
	if err := b.host.Reload(ctx); err != nil {
		b.registry.BuiltIn = old
		return err
	}
	b.cfg = cfg
	b.sister.Store(&cfg.Sister)
	b.openPBS.Store(&cfg.OpenPBS)
	b.pbs.comments.Store(cfg.Vnodes.CommentConfigRefused)
	b.log.Logger.SetLevel(cfg.Host.Level())
	b.forgetLimits()
	if b.heads != nil {
		b.heads.Again()
	}
	return nil
}

// NewJobID returns the next job id of this node that no cgroup has: numbers begin anew when the state
// was deleted.
func (b *backend) NewJobID(context.Context) (string, error) {
	b.numbers.Lock()
	defer b.numbers.Unlock()
	for {
		n, err := jobstate.NextNumber(b.cli.state)
		if err != nil {
			return "", err
		}
		id := fmt.Sprintf("%d.%s", n, b.node)
		job, err := b.tree.Job(id)
		if err != nil {
			return "", err
		}
		if !job.Exists() {
			return id, nil
		}
	}
}

// Process returns what an attach has to know of a process.
func (b *backend) Process(pid int) (api.Process, error) {
	p, err := proc.Read(b.procfs, pid)
	if errors.Is(err, proc.ErrGone) || err == nil && p.Dead() {
		return api.Process{}, fmt.Errorf("process %d: %w", pid, api.ErrNotFound)
	}
	return api.Process{UID: p.UID, StartTime: p.StartTime}, err
}

// Number returns the number here of the process that caller calls pid.
func (b *backend) Number(caller, pid int) (int, error) {
	n, err := proc.Translate(b.procfs, caller, pid)
	if errors.Is(err, proc.ErrGone) {
		err = fmt.Errorf("%w: %w", err, api.ErrNotFound)
	}
	return n, err
}

// Alive tells whether the process pid is the one that began at startTime, and lives.
func (b *backend) Alive(pid int, startTime uint64) bool {
	return proc.Alive(b.procfs, hostapi.ProcessID{PID: pid, StartTime: startTime})
}

// Close ends the hooks. Jobs live on.
func (b *backend) Close() error {
	if b.unwatch != nil {
		b.unwatch()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := b.host.Close(ctx)
	if b.unwatch != nil && err == nil { // else somebody hangs, and they with it
		b.watches.Wait()
	}
	if b.fleet != nil {
		b.fleet.Close()
	}
	return err
}
