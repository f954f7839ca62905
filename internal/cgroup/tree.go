// Package cgroup manages the cgroups of jobs. It creates, limits, measures, freezes, kills and
// removes them, and moves processes into them.
//
// The package owns the directories PREFIX.service in every cgroup hierarchy of the node and
// everything below them; see the picture in job.go. Hierarchies may be v1 (one or more controllers
// each), v2, or both side by side ("hybrid"). Detect determines once which is which. Each
// controller has a Go file that lists its interface files on v1 and v2; see controller.go. Sources:
// Documentation/admin-guide/cgroup-v1/*.rst and cgroup-v2.rst of the kernel.
//
// Create makes a job's cgroup completely or not at all. If the kernel accepts a limit but does not
// apply it, that is an error. Only processes in the job's cgroup are signalled, even if pids are
// reused. Waiting uses events of the kernel if they exist. The package makes no decisions: its
// caller decides how much a job gets.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sync/singleflight"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/sample"
)

// Errors that callers check for.
var (
	// ErrExists: the job has a cgroup, in at least one hierarchy.
	ErrExists = errors.New("cgroup exists already")
	// ErrNotFound: the job has no cgroup, or it has just disappeared.
	ErrNotFound = errors.New("no such cgroup")
	// ErrNotJobs: the cgroup's mark does not belong to the job.
	ErrNotJobs = errors.New("not the mark of this job")
	// ErrNotInForce: the kernel accepted a limit but shows another value, or somebody else changed
	// the job's limits at the same time.
	ErrNotInForce = errors.New("limit is not in force")
	// ErrInUse: the job uses more than the requested limit and cannot give it back.
	ErrInUse = errors.New("limit below what is in use")
	// ErrNotEmpty: the cgroup still has processes.
	ErrNotEmpty = errors.New("cgroup has processes")
	// ErrNoUnit: systemd has not started PREFIX.service, or placed it elsewhere.
	ErrNoUnit = errors.New("systemd has not started the unit")
	// ErrBusy: a directory could not be removed.
	ErrBusy = errors.New("cgroup is busy")
	// ErrUnsupported: this node's cgroups do not support what was requested.
	ErrUnsupported = kernfs.ErrUnsupported
)

// Mode says how the node's controllers are mounted.
type Mode int

// The modes. A hybrid node has v1 controllers and a v2 tree beside them, usually without
// controllers.
const (
	ModeV1 Mode = iota + 1
	ModeHybrid
	ModeV2
)

// String returns "v1", "hybrid" or "v2".
func (m Mode) String() string {
	switch m {
	case ModeV1:
		return "v1"
	case ModeHybrid:
		return "hybrid"
	case ModeV2:
		return "v2"
	}
	return fmt.Sprintf("Mode(%d)", int(m))
}

// Options say where the jobs' cgroups are. The zero value suits a node without special
// configuration.
type Options struct {
	// Prefix names the parent of all jobs, PREFIX.service. "" is pbs_jobs.
	Prefix string
	// Mount is the directory where cgroups are mounted. "" is the Cgroup root, /sys/fs/cgroup.
	Mount string
	// Mode excludes some mounts: ModeV1 ignores a v2 tree, and ModeV2 ignores v1 controllers. 0
	// uses everything.
	Mode Mode
	// Delegated means that PREFIX.service is a systemd unit (internal/systemd). In the v2 tree
	// systemd creates it and gives it controllers. Prepare fails with ErrNoUnit if it is missing.
	Delegated bool
	// Enable names controllers that Prepare enables in the root of the v2 tree, for the whole node.
	// It is an error if the tree does not have one of them, unless v1 controllers are mounted as
	// well.
	Enable []string
	// EnableIfThere is like Enable, for controllers that may be missing.
	EnableIfThere []string
	// Controllers names further controllers in which jobs get a directory, in addition to those
	// that limit and count: blkio, net_cls, net_prio, perf_event, rdma. Those that this node does
	// not have are ignored; see Has.
	Controllers []string
	// Signal replaces the kernel's pidfds in tests with a fake kernel.
	Signal func(pid int, sig syscall.Signal) error
}

// Tree contains the cgroups of all jobs on this node. A Tree is safe for concurrent use.
type Tree struct {
	mode        Mode
	hierarchies []*hierarchy // in the order of controllers, then the v2 tree, then placing
	v2          *hierarchy   // nil on ModeV1
	proc        *kernfs.FS
	beat        sample.Beat // for Watch and the users of Beat
	signal      func(pid int, sig syscall.Signal) error

	protecting sync.Mutex  // only within this process; other processes calculate the same sum
	protected  atomic.Bool // a job has had memory.low

	removals singleflight.Group // by job: see removeMain
}

// hierarchy is one mounted cgroup hierarchy.
type hierarchy struct {
	v2    bool
	names atomic.Pointer[[]string] // see controllers
	mount *kernfs.FS
	root  string                  // which part of the hierarchy is mounted; usually "/"
	unit  string                  // PREFIX.service
	leaf  string                  // jobid or jobs
	jobs  *kernfs.FS              // UNIT/LEAF, the parent of the jobs' directories
	pages atomic.Pointer[[]int64] // huge page sizes with files of the hugetlb controller; nil before they are read

	delegated             bool // see Options
	enable, enableIfThere []string
	asked                 []string // Options.Controllers and stillThere
	leaving               bool     // only jobs that began earlier are in it; the configuration no longer names it

	signal func(pid int, sig syscall.Signal) error // see Options
}

// controllers returns the controllers whose files jobs have here. In the v2 tree these are the
// expected ones until Prepare has run.
func (h *hierarchy) controllers() []string { return *h.names.Load() }

func (h *hierarchy) has(controller string) bool { return slices.Contains(h.controllers(), controller) }

// Beat returns the beat for all samples of jobs. It has a goroutine only while something is being
// sampled.
func (t *Tree) Beat() *sample.Beat { return &t.beat }

// Mode returns how the node's controllers are mounted.
func (t *Tree) Mode() Mode { return t.mode }

// Controllers returns the controllers that can be used for jobs, in a fixed order. On v2 these are
// the ones that Prepare passed down to the jobs, or before that the ones that it is expected to
// pass down.
func (t *Tree) Controllers() []string {
	var all []string
	for _, c := range controllerNames() {
		if t.with(c) != nil {
			all = append(all, c)
		}
	}
	return all
}

// with returns the hierarchy of a controller, or nil.
func (t *Tree) with(controller string) *hierarchy {
	for _, h := range t.hierarchies {
		if h.has(controller) && !h.leaving {
			return h
		}
	}
	return nil
}

// Has reports whether the node has a controller, by its kernel name (such as hugetlb or io), or a
// feature. Features of v2 are visible after Prepare has run. The features are:
//
//	memsw       swap is accounted and can be limited
//	softlimit   memory.soft_limit_in_bytes or memory.low
//	hardwall    cpuset.mem_hardwall of v1
//	spread      cpuset.memory_spread_page of v1
//	swappiness  memory.swappiness of v1
//	oomgroup    memory.oom.group
//	peak        the kernel records the peak of all memory: v1, and memory.peak since Linux 5.19
//	swappeak    ... of memory and swap together: v1 with swap accounting, Linux 6.5
//	hugepeak    ... of huge pages: v1
//	reclaim     memory.reclaim, Linux 5.19
//	freeze      jobs can be frozen
//	kill        cgroup.kill, Linux 5.14
//	psi         pressure is accounted by cgroup
//
// On v2, blkio is the older name of io. perf_event is in every v2 cgroup but never listed
// (implicit_on_dfl of kernel/events/core.c).
func (t *Tree) Has(name string) bool {
	for _, c := range controllers {
		if f, ok := c.features[name]; ok {
			return t.hasFile(c.name, f)
		}
	}
	switch name {
	case "freeze":
		return t.with("freezer") != nil || t.v2 != nil && t.v2.jobs.Exists("cgroup.freeze")
	case "kill":
		return t.v2 != nil && t.v2.jobs.Exists("cgroup.kill")
	case "psi":
		if t.v2 == nil {
			return false
		}
		_, err := t.v2.jobs.ReadFile("cpu.pressure") // EOPNOTSUPP on older kernels with psi=0
		return err == nil
	case "hugepeak":
		h := t.with("hugetlb")
		return h != nil && !h.v2
	case "blkio":
		return t.with("blkio") != nil || t.with("io") != nil
	case "perf_event":
		return t.with("perf_event") != nil || t.v2 != nil && t.unbound("perf_event")
	}
	return t.with(name) != nil
}

// unbound reports whether the kernel has a controller that is in no v1 hierarchy (/proc/cgroups).
func (t *Tree) unbound(controller string) bool {
	b, err := t.proc.ReadFile("cgroups")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 4 && f[0] == controller {
			return f[1] == "0" && f[3] == "1"
		}
	}
	return false
}

// hasFile reports whether jobs have an interface file of a controller. On v1 the file also exists
// in the root of the hierarchy.
func (t *Tree) hasFile(controller string, f files) bool {
	h := t.with(controller)
	switch {
	case h == nil:
		return false
	case h.v2:
		return f.v2 != "" && h.jobs.Exists(f.v2)
	}
	return f.v1 != "" && h.mount.Exists(f.v1)
}

// JobIDs returns the ids of the jobs that have a cgroup here, in at least one hierarchy. It ignores
// directories whose names are not job ids.
func (t *Tree) JobIDs() ([]string, error) {
	var ids []string
	for _, h := range t.hierarchies {
		names, err := h.jobs.Dirs(".")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list jobs: %w", err)
		}
		for _, name := range names {
			if hostapi.CheckJobID(name) == nil {
				ids = append(ids, name)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// Job returns the cgroup of the job id, which may not exist. It does not access any file. Job fails
// if id is not a valid job id.
func (t *Tree) Job(id string) (*Job, error) {
	if err := hostapi.CheckJobID(id); err != nil {
		return nil, err
	}
	j := &Job{tree: t, id: id, dirs: make([]directory, len(t.hierarchies))}
	for i, h := range t.hierarchies {
		dir, err := h.jobs.Sub(id)
		if err != nil {
			return nil, err
		}
		j.dirs[i] = directory{FS: dir, h: h}
	}
	return j, nil
}
