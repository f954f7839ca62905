package daemon

import (
	"context"
	"os"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/api"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/delivery"
	"github.com/hookhost/hookhost/internal/disk"
	"github.com/hookhost/hookhost/internal/host"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/metrics"
	"github.com/hookhost/hookhost/internal/mom"
	"github.com/hookhost/hookhost/internal/nodestate"
	"github.com/hookhost/hookhost/internal/openpbs"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/settings"
)

// daemon is the host of a node's jobs with everything around it.
type daemon struct {
	host      *host.Host
	conf      *configuration
	jobs      *jobs
	processes *processes
	mom       *pbsMoM
	delivery  *delivery.Delivery
	leftovers *leftovers
	refusals  *refusals
	doctor    *doctor
	meter     *meter
	metrics   *metrics.Metrics
	endpoint  *metrics.Endpoint
	log       *logrus.Entry

	version string
	since   time.Time
}

// open starts the hooks. The caller holds the prefix's lock.
func open(o *Options) (*daemon, error) {
	cfg, log := o.Settings.File, logrus.NewEntry(o.Log)
	node, err := settings.Node(cfg)
	if err != nil {
		return nil, err
	}
	procfs, err := kernfs.Open("/proc")
	if err != nil {
		return nil, err
	}
	sysfs, err := kernfs.Open("/sys")
	if err != nil {
		return nil, err
	}
	self, err := proc.Self(procfs)
	if err != nil {
		return nil, err
	}
	clock, err := jobstate.NewClock(self.BootID)
	if err != nil {
		return nil, err
	}
	registry, err := o.Registry(cfg)
	if err != nil {
		return nil, err
	}
	tree, err := detect(cfg)
	if err != nil {
		return nil, err
	}
	kernel := cgroups{tree: tree}
	store, err := openRecords(o.Paths, cfg, log)
	if err != nil {
		return nil, err
	}
	d := &daemon{log: log, version: o.Version, since: time.Now(), refusals: newRefusals(log)}
	d.conf = &configuration{paths: o.Paths, node: node, log: log, registry: registry, changed: d.configured}
	d.conf.file.Store(cfg)
	d.meter = &meter{tree: tree, procfs: procfs, sysfs: sysfs}
	d.jobs = &jobs{
		node: node, state: o.State, clock: clock, store: store, tree: tree, log: log,
		present: d.meter.Present, started: make(chan struct{}),
	}
	d.jobs.siteAdvice = d.conf.siteAdvice
	d.jobs.reports = o.OpenReports(d.conf.reportBounds, func(err error) { log.Error(err) })
	d.delivery = delivery.Open(d.conf.reportTargets, log)
	d.leftovers = &leftovers{
		aux: o.Paths.Aux(), tmpDir: mom.TmpDir, isLive: d.isLive, log: log, limit: removeTime,
	}
	d.processes = &processes{procfs: procfs, jobs: d.jobs, died: d.leftovers.runKilled}
	d.doctor = newDoctor(o.Doctor, d.conf.allInForce, log)
	notes, err := nodestate.Dir(o.State).Offline()
	if err != nil {
		log.Errorf("vnodes may stay offline: %v", err)
		notes = map[string]*nodestate.Offline{}
	}
	d.mom = &pbsMoM{conf: d.conf, store: store, procfs: procfs, doctor: d.doctor, log: log, notes: notes}
	d.openMetrics()
	if err := d.openHost(cfg, self, kernel); err != nil {
		return nil, err
	}
	return d, nil
}

// openRecords opens the records of the prefix's live jobs.
func openRecords(p Paths, cfg *config.File, log *logrus.Entry) (*jobstate.Store, error) {
	if err := disk.MakeDir(p.State, 0o700); err != nil {
		return nil, err
	}
	return jobstate.Open(p.records(cfg.Cgroup.Prefix), func(err error) { log.Error(err) })
}

func (d *daemon) openHost(cfg *config.File, self hostapi.ProcessID, kernel cgroups) error {
	paths := d.conf.paths
	h, err := host.Open(host.Options{
		Node: d.conf.node, Self: self, Registry: d.conf.registry, Store: d.jobs.store, Reports: d.jobs.reports,
		Processes: d.processes, Log: d.log, RuntimeDir: paths.beside("sockets"), Fallback: kernel,
		StartTimeout: time.Duration(cfg.Host.Start), Ended: d.leftovers.jobEnded,
		Finished: d.delivery.Send,
		PBSHas:   d.mom.has, PBSStarts: d.mom.starts,
		Populated: kernel.populated, SisterUsage: d.mom.sisterUsage,
		Observer: d.metrics, SiteAdvice: d.conf.siteAdvice,
	})
	if err != nil {
		return err
	}
	d.host, d.conf.host, d.jobs.host, d.mom.host = h, h, h, h
	return nil
}

// configured adapts the daemon to a configuration that was put in force.
func (d *daemon) configured() {
	if !d.conf.file.Load().Walltime.Enabled {
		d.jobs.forgetLimits()
	}
	d.listenForScrapes()
	d.doctor.configured()
}

// Handle carries out an event.
func (d *daemon) Handle(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	if err := openpbs.CheckRequest(req); err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "%w", err)
	}
	if err := d.conf.learnVntype(ctx, req); err != nil {
		d.log.Error(err) // the event uses what was known about the node before
	}
	if req.Job != nil {
		d.jobs.awaitLost(ctx, req.Job.ID)
	}
	return d.host.Handle(ctx, req)
}

// HandleUser carries out an event that a user asks for: an attach to a known job.
func (d *daemon) HandleUser(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	return d.host.HandleUser(ctx, req)
}

// Node returns information about this host and the state of its hooks.
func (d *daemon) Node(context.Context) (api.NodeInfo, error) {
	d.conf.mu.Lock()
	defer d.conf.mu.Unlock()
	info := api.NodeInfo{
		Version: d.version, PID: os.Getpid(), Node: d.conf.node, Mode: d.jobs.tree.Mode().String(), Since: d.since,
		Refused: d.refusals.counts(), Config: d.conf.info(),
	}
	hooks, err := d.host.Hooks()
	for _, h := range hooks {
		info.Hooks = append(info.Hooks, api.HookInfo{
			Name: h.Name, State: h.State, PID: h.PID, Order: h.Order, Events: h.Events, Restarts: h.Restarts,
			Error: h.Error,
		})
	}
	return info, err
}

// Reload reads the configuration and the registered hooks again.
func (d *daemon) Reload(ctx context.Context) error { return d.conf.Reload(ctx) }

// NewJobID returns the next id for a job of `run`.
func (d *daemon) NewJobID(context.Context) (string, error) { return d.jobs.newID() }

// isLive reports whether a job of that name still exists, and whether its `run` was killed. A name
// that is not a job's counts as live, so it is left alone.
func (d *daemon) isLive(name string) (live, dying bool) {
	job, err := d.jobs.tree.Job(name)
	if err != nil {
		return true, false
	}
	rec := d.jobs.store.Get(name)
	if rec == nil {
		return job.Exists(), false
	}
	return true, rec.Runner != nil && !d.processes.Alive(*rec.Runner)
}

// reconcile ends the jobs whose `run` has died or whose begin or end was interrupted, and removes
// the files that a dead `run` left. Errors concern single jobs and do not affect the others.
func (d *daemon) reconcile(ctx context.Context) {
	go d.leftovers.sweep()
	if err := d.host.Reconcile(ctx); err != nil {
		d.log.Errorf("end jobs that an earlier daemon left: %v", err)
	}
}

// deliveryTime is how long a daemon that stops still delivers reports.
const deliveryTime = 5 * time.Second

// close stops the hooks. Jobs live on.
func (d *daemon) close() error {
	d.endpoint.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := d.host.Close(ctx)
	d.jobs.reports.Close()
	ctx, cancel = context.WithTimeout(context.Background(), deliveryTime)
	defer cancel()
	d.delivery.Close(ctx)
	return err
}
