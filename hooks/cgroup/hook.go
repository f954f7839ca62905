package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/nodestate"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/rapl"
	"github.com/hookhost/hookhost/internal/systemd"
	"github.com/hookhost/hookhost/internal/topology"
)

// hook handles the events. It remembers only live jobs: everything that must survive is in the
// kernel.
type hook struct {
	policy         *policy
	log            *logrus.Entry
	roots          kernfs.Roots
	tree           *cgroup.Tree
	parent         *cgroup.Limits                // what limitParent set last; under the lock
	parentExceeded bool                          // jobs exceeded a limit then; under the lock
	self           []int                         // this process and its host, which must never be moved into a job
	kmsg           func() (io.ReadCloser, error) // see openKmsg
	units          units                         // nil: the parent of all jobs is a plain directory

	inventory func() (*inventory.Inventory, error) // the devices; fs.ErrNotExist before the first scan

	hold       func(procfs *kernfs.FS, pid int) (held, proc.Process, error) // see proc.Hold
	setRlimits func(*kernfs.FS, hostapi.ProcessID, map[string]proc.Rlimit, func(string) bool) error

	sessions *proc.Sessions

	environs *proc.Environs

	kept    nodestate.Dir // state that survives a reboot
	offline atomic.Bool   // stuck has asked for it since recovered

	machine   atomic.Pointer[topology.Node] // see node
	published atomic.Pointer[topology.Node] // the node as last reported to PBS

	background sync.WaitGroup // work that runs concurrently with the events

	mu         sync.Mutex
	table      map[string]*job // jobs by id; see with
	filled     bool            // see fill; under the lock
	choosing   turn            // see lock
	unlockTree func()          // releases the tree's lock; nil before the first lock

	meter *rapl.Meter // nil if energy is not counted
	cpus  int         // ncpus of all jobs together, as PBS counts them; 0 without meter
}

// newHook opens this machine's kernel files and creates the hook.
func newHook(s *hostapi.Setup) (any, error) {
	roots, err := kernfs.OpenRoots()
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "open kernel files: %w", err)
	}
	p, err := newPolicy(s.Config)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	system := systemd.New(systemd.Run, time.Duration(p.Cgroup.SystemdWait))
	opt, err := p.options(system)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	h, err := open(p, roots, opt, s.Log)
	if err != nil {
		return nil, err
	}
	if opt.Delegated {
		h.units = system
	}
	dir := s.Host["state_dir"]
	h.kept = nodestate.Dir(dir)
	if dir != "" {
		h.inventory = func() (*inventory.Inventory, error) { return inventory.Load(dir) }
	}
	return h, nil
}

// open detects what this node supports. It writes nothing.
func open(p *policy, roots kernfs.Roots, opt cgroup.Options, log *logrus.Entry) (*hook, error) {
	tree, err := cgroup.Detect(roots, opt)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	if err := p.need(tree); err != nil {
		return nil, err
	}
	if err := p.resolveIO(roots.Sys); err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "%w", err)
	}
	node, err := topology.Scan(roots)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindNode, "scan topology: %w", err)
	}
	self, err := pidsOfHookAndHost(roots.Proc)
	if err != nil {
		return nil, err
	}
	h := &hook{
		policy:     p,
		log:        log,
		roots:      roots,
		tree:       tree,
		self:       self,
		kmsg:       openKmsg,
		inventory:  noInventory,
		hold:       holdByPidfd,
		setRlimits: proc.SetRlimits,
		sessions:   proc.NewSessions(roots.Proc),
		environs:   proc.NewEnvirons(roots.Proc),
		table:      map[string]*job{},
		choosing:   make(turn, 1),
	}
	h.machine.Store(node)
	h.published.Store(node)
	h.openMeter()
	return h, nil
}

// node returns the machine as it was at the last exechost_periodic, or at the start.
func (h *hook) node() *topology.Node { return h.machine.Load() }

func noInventory() (*inventory.Inventory, error) { return nil, fs.ErrNotExist }

// need fails if this node cannot enforce its configuration. The error names every missing
// controller.
func (p *policy) need(tree *cgroup.Tree) error {
	var errs []error
	for _, c := range p.Limiting() {
		if !tree.Has(c) {
			errs = append(errs, fmt.Errorf("[%s] is enabled, but this kernel offers no %[1]s controller", c))
		}
	}
	for _, c := range p.Required() {
		if !tree.Has(c) {
			errs = append(errs, fmt.Errorf("[%s] is enabled, but jobs can have no cgroup in %[1]s on this node%s: "+
				"see hookhost doctor", c, onlyV1(c)))
		}
	}
	if p.Memory.Enabled && p.Memory.SoftLimit && tree.Prepared() && tree.Has("memory") && !tree.Has("softlimit") {
		errs = append(errs, errors.New("[memory] soft_limit is true, but this kernel has no soft limit"))
	}
	if dir := tree.NotSystemds(); dir != "" && len(errs) > 0 {
		errs = append(errs, fmt.Errorf("%s was not made by systemd, which does not enable controllers in it. "+
			"When no job runs, remove it and everything below it (rmdir), and start hookhost again", dir))
	}
	if len(errs) > 0 {
		return hostapi.Errorf(hostapi.KindNode, "%w", errors.Join(errs...))
	}
	return nil
}

// onlyV1 returns a remark for controllers that cgroup v2 does not have.
func onlyV1(controller string) string {
	if strings.HasPrefix(controller, "net_") {
		return " (cgroup v1 only)"
	}
	return ""
}

// job returns the cgroup of the event's job, which may not exist.
func (h *hook) job(req *hostapi.Request) (*cgroup.Job, error) {
	j, err := h.tree.Job(req.Job.ID)
	if err != nil {
		return nil, hostapi.Errorf(hostapi.KindJob, "%w", err)
	}
	return j, nil
}

// killTimeout limits how long the kill at a job's end may take.
func (h *hook) killTimeout() time.Duration { return time.Duration(h.policy.Cgroup.KillTimeout) }

func (h *hook) logOf(id string) *logrus.Entry { return h.log.WithField("job", id) }
