// Package cgroup is a job's cgroup: made, limited, joined, measured, frozen, killed, removed.
//
// The package owns the directories PREFIX.service in every cgroup hierarchy of the node and
// everything below them; the picture is in job.go. Hierarchies may be v1 (one or more controllers
// each), v2, or both side by side ("hybrid"). Detect decides once which is which. Each controller
// is one file with its interface files on v1 and v2, see controller.go. Sources:
// Documentation/admin-guide/cgroup-v1/*.rst and cgroup-v2.rst of the kernel.
//
// A job's cgroup exists as a whole or not at all after Create. A limit that the kernel took but
// does not have in force is an error. No process is signalled but one that is in the job's cgroup,
// whatever becomes of its pid. Waiting is for events of the kernel, if it has one. The package
// decides nothing: how much a job gets is its caller's business.
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

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/sample"
)

// Facts that callers branch on.
var (
	// ErrExists: the job has a cgroup, in one hierarchy at least.
	ErrExists = errors.New("cgroup exists already")
	// ErrNotFound: the job has no cgroup, or it went away meanwhile.
	ErrNotFound = errors.New("no such cgroup")
	// ErrNotJobs: the cgroup's mark is not that of the job.
	ErrNotJobs = errors.New("not the mark of this job")
	// ErrNotInForce: the kernel took a limit but shows another value, or somebody else changed the
	// job's limits at the same time.
	ErrNotInForce = errors.New("limit is not in force")
	// ErrInUse: the job uses more than the limit that was asked for, and cannot give it back.
	ErrInUse = errors.New("limit below what is in use")
	// ErrNotEmpty: there are processes in the cgroup still.
	ErrNotEmpty = errors.New("cgroup has processes")
	// ErrNoUnit: systemd has not started PREFIX.service, or has it elsewhere.
	ErrNoUnit = errors.New("systemd has not started the unit")
	// ErrBusy: a directory could not be removed.
	ErrBusy = errors.New("cgroup is busy")
	// ErrUnsupported: this node's cgroups cannot do it.
	ErrUnsupported = kernfs.ErrUnsupported
)

// Mode is how the node's controllers are mounted.
type Mode int

// The modes. A hybrid node has v1 controllers and a v2 tree beside them, commonly without
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

// Options say where jobs' cgroups are. The zero value is a node as it comes.
type Options struct {
	// Prefix names the parent of all jobs, PREFIX.service. "" is pbs_jobs.
	Prefix string
	// Mount is the directory where cgroups are mounted. "" is the Cgroup root, /sys/fs/cgroup.
	Mount string
	// Mode leaves out what is mounted besides: ModeV1 a v2 tree, ModeV2 v1 controllers. 0 takes
	// what there is.
	Mode Mode
	// Delegated: PREFIX.service is a unit of systemd's (internal/systemd). In the v2 tree it is
	// systemd that makes it and gives it controllers; Prepare fails with ErrNoUnit where it is
	// missing.
	Delegated bool
	// Enable names controllers that Prepare enables in the root of the v2 tree, for the whole node.
	// A controller that the tree does not have is an error, unless v1 controllers are mounted
	// beside it.
	Enable []string
	// EnableIfThere is Enable for controllers that may be missing.
	EnableIfThere []string
	// Controllers names what jobs are to have a directory of beyond the ones that limit and count
	// them: blkio, net_cls, net_prio, perf_event, rdma. A controller that this node does not have
	// is passed over, see Has.
	Controllers []string
	// Signal replaces the kernel's pidfds where processes are not the kernel's own: in tests with a
	// fake kernel.
	Signal func(pid int, sig syscall.Signal) error
}

// Tree is the place of all jobs' cgroups on this node. A Tree is safe for concurrent use.
type Tree struct {
	mode        Mode
	hierarchies []*hierarchy // in the order of controllers, then the v2 tree, then those of placing
	v2          *hierarchy   // nil on ModeV1
	proc        *kernfs.FS
	beat        sample.Beat // of Watch, and of Beat
	signal      func(pid int, sig syscall.Signal) error

	protecting sync.Mutex  // of this process's; others come to the same sum
	protected  atomic.Bool // a job had memory.low
}

// hierarchy is one mounted cgroup tree.
type hierarchy struct {
	v2    bool
	names atomic.Pointer[[]string] // see controllers
	mount *kernfs.FS
	root  string                  // what of the hierarchy is mounted there, "/" on a plain node
	unit  string                  // PREFIX.service
	leaf  string                  // jobid or jobs
	jobs  *kernfs.FS              // UNIT/LEAF, the parent of the jobs' directories
	pages atomic.Pointer[[]int64] // sizes of huge pages that the hugetlb controller has files of, once they are read

	delegated             bool // see Options
	enable, enableIfThere []string
	asked                 []string // of placing
	leaving               bool     // jobs that began earlier are in it, and nobody asked for it any more

	signal func(pid int, sig syscall.Signal) error // see Options
}

// controllers returns those of controllerNames that jobs have files of here. In the v2
// tree they are what is expected until prepare has seen to it.
func (h *hierarchy) controllers() []string { return *h.names.Load() }

func (h *hierarchy) has(controller string) bool { return slices.Contains(h.controllers(), controller) }

// Beat returns the beat of all samples of jobs. A goroutine exists only while something is on it.
func (t *Tree) Beat() *sample.Beat { return &t.beat }

// Mode returns how the node's controllers are mounted.
func (t *Tree) Mode() Mode { return t.mode }

// Controllers returns the controllers that can be used for jobs, in a fixed order. On v2 those are
// the ones that Prepare passed down to the jobs, and before it the ones that it may expect to.
func (t *Tree) Controllers() []string {
	var all []string
	for _, c := range controllerNames() {
		if t.with(c) != nil {
			all = append(all, c)
		}
	}
	return all
}

// with returns the hierarchy of a controller, nil when there is none.
func (t *Tree) with(controller string) *hierarchy {
	for _, h := range t.hierarchies {
		if h.has(controller) && !h.leaving {
			return h
		}
	}
	return nil
}

// Has reports whether the node has a controller, by its kernel name (hugetlb and io are two of
// them), or a feature. Features of v2 show once Prepare has run. The features are:
//
//	memsw       swap is accounted and can be limited
//	softlimit   memory.soft_limit_in_bytes or memory.low
//	hardwall    cpuset.mem_hardwall of v1
//	spread      cpuset.memory_spread_page of v1
//	swappiness  memory.swappiness of v1
//	oomgroup    memory.oom.group
//	peak        the kernel keeps the peak of all memory: v1, and memory.peak since Linux 5.19
//	swappeak    that of memory and swap together: v1 with swap accounting, Linux 6.5
//	hugepeak    that of huge pages: v1
//	reclaim     memory.reclaim, Linux 5.19
//	freeze      jobs can be frozen
//	kill        cgroup.kill, Linux 5.14
//	psi         pressure is accounted by cgroup
//
// On v2, blkio is io by its older name. perf_event is in every v2 cgroup and never named
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
		_, err := t.v2.jobs.ReadFile("cpu.pressure") // EOPNOTSUPP where psi=0 was given to an older kernel
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

// hasFile reports whether jobs have an interface file of a controller. On v1 the file is also in
// the root of the hierarchy.
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

// JobIDs returns the ids of the jobs that have a cgroup here, in one hierarchy at least.
// Directories whose names are not job ids are somebody else's.
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

// Job returns the cgroup of the job id, which need not exist. No file is touched. Job fails when id
// is no job id.
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
