package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/devfilter"
	"github.com/hookhost/hookhost/internal/devrule"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/topology"
)

// hook handles the events. It does not store grants: they are on the jobs' cgroups.
type hook struct {
	policy  *policy
	log     *logrus.Entry
	tree    *cgroup.Tree
	node    *topology.Node
	keeper  *inventoryKeeper
	look    devrule.Lookup
	cdi     cdiDir
	mapping mappingDir
	now     func() time.Time

	cdiChanges, mappingChanges *publicDir

	gpuMajors func() ([]uint32, error) // see inventory.GPUMajors
	// ask asks NVML how devices were used, and account turns on accounting. Both are nil if there
	// is no NVML program.
	ask     func(ctx context.Context, limit time.Duration, uuids ...string) (*inventory.NVIDIAUsage, error)
	account func(ctx context.Context, limit time.Duration) error
	sample  sampler // asks NVML how devices are being used; nil if there is no NVML program
	charts  *charts

	life       context.Context // ends with the program
	background sync.WaitGroup  // work that runs concurrently with the events
	counting   sync.Once
	marking    sync.Mutex // guards sinceMark
	confining  sync.Mutex // guards jobs' filters

	mu      sync.Mutex
	told    map[string]*hostapi.Vnode // the vnodes as last reported to PBS
	missing []string                  // names without a device node, as last logged
	leftOut []string                  // what was left out of devices.allow, as last logged
	unsure  bool                      // more rules may be left out than necessary

	unsampled bool // the last sample failed; guarded by charts.mu
}

// newHook opens this machine's kernel files and creates the hook.
func newHook(s *hostapi.Setup) (any, error) {
	p, err := newPolicy(s.Config)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	roots, err := kernfs.OpenRoots()
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "open kernel files: %w", err)
	}
	return open(p, roots, cgroup.Options{Prefix: p.Cgroup.Prefix, Mount: p.Cgroup.Mount}, s.Host["state_dir"],
		p.options(s.Host["nvml"]), devrule.Nodes("/dev"), s.Log)
}

// open creates the hook of a node. It changes nothing on the node and does not scan for devices,
// but loads the results of an earlier scan.
func open(p *policy, roots kernfs.Roots, opt cgroup.Options, stateDir string, find inventory.Options,
	look devrule.Lookup, log *logrus.Entry) (*hook, error) {
	tree, err := cgroup.Detect(roots, opt)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	node, err := topology.Scan(roots)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "scan topology: %w", err)
	}
	h := &hook{policy: p, log: log, tree: tree, node: node, look: look,
		cdi:     newCDIDir(p.Devices.CDIDir, p.Cgroup.Prefix),
		mapping: newMappingDir(p.Devices.DCGMDir, stateDir), now: time.Now,
		cdiChanges:     &publicDir{path: p.Devices.CDIDir, patience: publicPatience},
		mappingChanges: &publicDir{path: p.Devices.DCGMDir, patience: publicPatience},
		life:           context.Background(), charts: newCharts(),
		gpuMajors: func() ([]uint32, error) { return inventory.GPUMajors(roots.Proc) }}
	h.keeper = &inventoryKeeper{dir: stateDir, log: log,
		scan:      func(ctx context.Context) *inventory.Inventory { return inventory.Scan(ctx, roots, find) },
		numbering: func() ([]string, error) { return inventory.Numbering(roots) },
		changed: func() {
			if err := h.follow(h.life); err != nil && h.life.Err() == nil {
				h.log.Warn(err) // exechost_periodic tries again and reports errors
			}
		}}
	if find.NVML != "" {
		h.ask = func(ctx context.Context, limit time.Duration, uuids ...string) (*inventory.NVIDIAUsage, error) {
			return inventory.AskNVMLUsage(ctx, find.NVML, limit, uuids...)
		}
		h.sample = func(ctx context.Context, limit time.Duration, since time.Time, uuids ...string) (
			*inventory.NVIDIASamples, error) {
			return inventory.AskNVMLSample(ctx, find.NVML, limit, since, uuids...)
		}
		h.account = func(ctx context.Context, limit time.Duration) error {
			return inventory.NVMLAccountingOn(ctx, find.NVML, limit)
		}
	}
	h.keeper.load()
	if _, _, err := p.resolve(look); err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	return h, nil
}

// common returns the devices that every job may open on this node, in addition to those assigned to
// it. It reads /dev each time, since drivers can appear while jobs run. Names without a device, and
// rules that were left out, are logged when they change. Doctor also shows the rules.
func (h *hook) common() (common, error) {
	h.mu.Lock() // so that logs are in the order of the observations
	defer h.mu.Unlock()
	list, missing, err := h.policy.resolve(h.look)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	inv := h.keeper.current()
	beside := h.policy.unseenBy(inv, h.look, h.gpuMajors)
	list, leftOut := list.guarded(inv, beside)
	if !slices.Equal(missing, h.missing) && len(missing) > 0 {
		h.log.Infof("what every job may open: not on this node: %q", missing)
	}
	if !slices.Equal(leftOut, h.leftOut) {
		for _, what := range leftOut {
			h.log.Warn(what)
		}
		if len(leftOut) == 0 {
			h.log.Info("devices.allow: nothing is left out any more")
		}
	}
	h.missing, h.leftOut, h.unsure = missing, leftOut, beside.why != "" || len(beside.configured) > 0
	h.keeper.note(allowSource, strings.Join(leftOut, "; "))
	return list, nil
}

// job returns the cgroup of the event's job, which may not exist.
func (h *hook) job(req *hostapi.Request) (*cgroup.Job, error) {
	j, err := h.tree.Job(req.Job.ID)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "%w", err)
	}
	return j, nil
}

// granted returns the job's cgroup and grant. The grant is nil for a job that began with
// devices.enabled = false. Such a job keeps its access.
func (h *hook) granted(req *hostapi.Request) (*cgroup.Job, *inventory.Grant, error) {
	j, err := h.job(req)
	if err != nil {
		return nil, nil, err
	}
	g, err := grantOf(j)
	return j, g, err
}

func grantOf(j *cgroup.Job) (*inventory.Grant, error) {
	g, err := inventory.GrantOf(j)
	if errors.Is(err, cgroup.ErrNotFound) {
		return nil, hostapi.Errorf(hostapi.KindNode, "job %s has no cgroup: hook cgroup must run before hook devices",
			j.ID())
	}
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "job %s: %w", j.ID(), err)
	}
	return g, nil
}

// confine installs the filter for the job's grant and returns the grant. After an error the
// previous filter is still in force. Devices that the job gave up become free for others only when
// the filter excludes them.
//
// A resize may run concurrently with exechost_periodic. Neither may install a filter for an old
// grant, or mistake the other's program for a leftover. So only one call confines at a time. The
// list of devices that all jobs may open is also made under that lock. Otherwise a launch that
// waited for it would open devices that were found meanwhile.
func (h *hook) confine(j *cgroup.Job) (*inventory.Grant, error) {
	h.confining.Lock()
	defer h.confining.Unlock()
	g, err := grantOf(j)
	if err != nil || g == nil {
		return nil, err
	}
	list, err := h.common()
	if err != nil {
		return nil, err
	}
	if err := devfilter.Install(placeOf(j), list.with(g)); err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "device filter of job %s: %w", j.ID(), err)
	}
	if err := g.Applied(j); err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "job %s: devices that it gave up: %w", j.ID(), err)
	}
	g.Leaving = nil
	return g, nil
}

// confined makes sure that the filter for the job's grant g and the common list is in force. If it
// is, confined does nothing.
func (h *hook) confined(j *cgroup.Job, g *inventory.Grant, list common) (*inventory.Grant, error) {
	if len(g.Leaving) == 0 && devfilter.InForce(placeOf(j), list.with(g)) == nil {
		return g, nil
	}
	return h.confine(j)
}

func placeOf(j *cgroup.Job) devfilter.Place {
	v2, v1 := j.DevicesAt()
	return devfilter.Place{V2: v2, V1: v1}
}

func (h *hook) logOf(id string) *logrus.Entry { return h.log.WithField("job", id) }
