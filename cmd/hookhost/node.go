package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/ledger"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/systemd"
)

// Folders beside the socket: programs' sockets, and jobs' node files.
func (c *cli) runtimeDir() string { return filepath.Join(filepath.Dir(c.socket), "hooks") }
func (c *cli) auxDir() string     { return filepath.Join(filepath.Dir(c.socket), "aux") }

func (c *cli) ledgerFile() string { return filepath.Join(c.state, "ledger.jsonl") }

// builtIn returns the hooks that come with hookhost. Their attributes are those of OpenPBS's own
// cgroups hook, but for mpi. A node can run jobs without mpi, so no failure of mpi puts the node
// offline. There is no hook where [host] says that this host is left alone.
func builtIn(cfg *config.File) ([]host.Hook, error) {
	if !cfg.Host.Enabled {
		return nil, nil
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	var hooks []host.Hook
	for _, b := range []struct {
		name    string
		order   int // devices and walltime come after cgroup: the filter is put on what that made, and signals go to what is in it
		enabled bool
		alarm   int // seconds; below what pbs_mom gives the shim (integrations/openpbs), so that what fail_action says of a hook that hangs reaches it
		fail    host.FailActionList
	}{
		{"cgroup", 100, true, 60, host.FailActionList{host.FailOfflineVnodes}},
		{"devices", 110, cfg.Devices.Enabled, 60, host.FailActionList{host.FailOfflineVnodes}},
		{"walltime", 120, cfg.Walltime.Enabled, 60, host.FailActionList{host.FailOfflineVnodes}},
		{"mpi", 130, cfg.MPI.Enabled, 30, nil},
	} {
		if !b.enabled {
			continue
		}
		program, err := findProgram(b.name)
		if err != nil {
			return nil, err
		}
		a := host.DefaultAttributes()
		a.Type, a.Order, a.Alarm = host.TypePBS, b.order, b.alarm
		if b.name == "mpi" { // what got out of a job is not to run free for long
			a.Freq = 30
		}
		if b.fail != nil {
			a.FailAction = b.fail
		}
		hooks = append(hooks, host.Hook{Name: b.name, Attributes: a, Program: program, ConfigData: text, BuiltIn: true})
	}
	return hooks, nil
}

// registry is the set of this node's hooks: the built-in ones and those in hooks.d.
func (c *cli) registry(cfg *config.File) (*host.Registry, error) {
	hooks, err := builtIn(cfg)
	if err != nil {
		return nil, err
	}
	return &host.Registry{Dir: c.hooksDir(), ProgramDir: c.programDir(), BuiltIn: hooks, AllowUnsafePaths: cfg.Host.AllowUnsafeHooks}, nil
}

// recordsDir holds the records of the live jobs of a prefix. They end with the boot, as jobs do. The
// lock of the prefix has them belong to one daemon.
func (c *cli) recordsDir(prefix string) string {
	return filepath.Join(filepath.Dir(c.socket), "jobs", prefix)
}

// openRebuilt opens the records and completes them from the cgroup tree: now, and whenever complete
// is called. The caller has the prefix's lock.
func (c *cli) openRebuilt(t traces, prefix string, log *logrus.Entry) (
	store *jobstate.Store, complete func(), err error,
) {
	complete = func() {
		if err := t.rebuild(store, log); err != nil {
			log.Errorf("rebuild state from cgroups: %v", err)
		}
	}
	if err := jobstate.MakeDir(c.state); err != nil {
		return nil, nil, err
	}
	store, err = jobstate.Open(c.recordsDir(prefix), func(err error) { log.Error(err) })
	if err != nil {
		return nil, nil, err
	}
	complete()
	return store, complete, nil
}

// detect opens the cgroup tree, for the few things that commands and the host do with it themselves.
func detect(cfg *config.File) (*cgroup.Tree, error) {
	roots, err := kernfs.OpenRoots()
	if err != nil {
		return nil, err
	}
	return detectIn(roots, cfg)
}

// detectIn sees the tree as the cgroup hook does (hooks/cgroup/parent.go), which prepares it.
func detectIn(roots kernfs.Roots, cfg *config.File) (*cgroup.Tree, error) {
	s := systemd.New(systemd.Run, time.Duration(cfg.Cgroup.SystemdWait))
	delegated, err := s.Wanted(cfg.Cgroup.Systemd)
	if err != nil {
		return nil, err
	}
	opt := cgroup.Options{Prefix: cfg.Cgroup.Prefix, Mount: cfg.Cgroup.Mount, Delegated: delegated,
		Enable: cfg.Cgroup.EnableControllers, Controllers: cfg.Placing()}
	if !s.Running() {
		opt.EnableIfThere = cfg.Controllers()
	}
	return cgroup.Detect(roots, opt)
}

// openHost starts the hooks. The caller has the prefix's lock. ended is called when a job is over.
func (c *cli) openHost(ctx context.Context, cfg *config.File, log *logrus.Logger, ended func()) (*backend, error) {
	name, err := nodeName(cfg)
	if err != nil {
		return nil, err
	}
	procfs, err := kernfs.Open("/proc")
	if err != nil {
		return nil, err
	}
	self, err := proc.Self(procfs)
	if err != nil {
		return nil, err
	}
	registry, err := c.registry(cfg)
	if err != nil {
		return nil, err
	}
	entry := logrus.NewEntry(log)
	tree, err := detect(cfg)
	if err != nil {
		return nil, err
	}
	nvml, err := findBeside("nvml")
	if err != nil {
		return nil, err
	}
	p := processes{procfs: procfs}
	t := traces{tree: tree, self: self, procfs: procfs}
	store, complete, err := c.openRebuilt(t, cfg.Cgroup.Prefix, entry)
	if err != nil {
		return nil, err
	}
	b := &backend{
		cli: c, registry: registry, store: store, ledger: ledger.Open(c.ledgerFile()), log: entry, cfg: cfg,
		complete: complete, tree: tree, node: name, since: time.Now(), procfs: procfs,
	}
	b.sister.Store(&cfg.Sister)
	b.openPBS.Store(&cfg.OpenPBS)
	b.pbs.comments.Store(cfg.Vnodes.CommentConfigRefused)
	p.died = b.removeLeft
	if err := b.connect(cfg); err != nil {
		return nil, err
	}
	b.origins = newOrigins(b)
	options := host.Options{
		Node: name, Self: self, Registry: registry, Store: store, Ledger: b.ledger, Processes: p,
		Log: entry, RuntimeDir: c.runtimeDir(), Fallback: t, Origins: b.origins,
		Settings:     map[string]string{"state_dir": c.state, "nvml": nvml, "aux_dir": c.auxDir(), "remsh": remshProgram()},
		StartTimeout: time.Duration(cfg.Host.Start), Ended: ended,
		Recover: func(_ context.Context, id string) (*jobstate.Record, error) {
			return t.recordOf(id)
		},
	}
	options.PBSHas, options.Populated = b.pbsHas, b.populated
	options.Sisters = b.spread(store).Of
	if b.host, err = host.Open(options); err != nil {
		return nil, err
	}
	return b, nil
}

// removeLeft removes the files of jobs whose `run` was killed.
func (b *backend) removeLeft() {
	if err := removeLeft(b.cli.auxDir(), b.tree, b.store, processes{procfs: b.procfs}.Alive); err != nil {
		b.log.Errorf("remove files of dead jobs: %v", err)
	}
}

// reconcile ends the jobs whose MoM or host has died and removes what their MoM left. Errors are of single jobs: the
// others are not to suffer.
func (b *backend) reconcile(ctx context.Context) {
	b.removeLeft()
	if err := b.host.Reconcile(ctx); err != nil {
		b.log.Errorf("end jobs of dead hosts: %v", err)
	}
}

// processes is what the host knows of this machine's processes.
type processes struct {
	procfs *kernfs.FS
	died   func() // called when a process that was waited for has ended
}

func (p processes) Alive(id hostapi.ProcessID) bool { return proc.Alive(p.procfs, id) }

func (p processes) Wait(ctx context.Context, id hostapi.ProcessID) error {
	h, err := proc.Open(p.procfs, id)
	if err == nil {
		err = h.Wait(ctx)
		h.Close()
	} else if errors.Is(err, proc.ErrGone) {
		err = nil
	}
	if err == nil {
		p.died()
	}
	return err
}

// RemoveJob removes a job's cgroup when the cgroup hook is not there to do it, or refuses to.
func (t traces) RemoveJob(ctx context.Context, id string) error {
	job, err := t.tree.Job(id)
	if err != nil {
		return err
	}
	r, unmarked := job.Record()
	if unmarked == nil { // what cannot be removed now is a sweep's
		r.Ending = true
		if err := job.SetRecord(r); err != nil && !errors.Is(err, cgroup.ErrNotFound) {
			return err
		}
	}
	// A process that a tracer holds is not waited for: a user has all the time there is.
	short, cancel := context.WithTimeout(ctx, time.Second)
	_, err = job.Kill(short)
	cancel()
	if pids, listErr := job.Processes(); err != nil && (listErr != nil || !proc.AllHeld(t.procfs, pids)) {
		_, err = job.Kill(ctx)
	}
	if err := errors.Join(err, job.Remove(ctx)); err != nil {
		return fmt.Errorf("remove cgroup: %w", err)
	}
	return nil
}
