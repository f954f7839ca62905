package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/inventory"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
)

// node is a hook on a kernel, with the data that its host keeps.
type node struct {
	*hook
	t     testing.TB
	start func(t testing.TB, enter func(pid int)) int // starts a process after calling enter with its pid
	lives func(pid int) bool
	boot  func() *hook // starts another hook process on the same kernel

	devices *inventory.Inventory    // the inventory from hook devices; nil if there is none yet
	jobs    map[string]*hostapi.Job // those with a record
}

const testNode = "node1"

var methods = map[hostapi.Event]func(*hook, context.Context, *hostapi.Request) (*hostapi.Outcome, error){
	hostapi.EventStartup:     (*hook).ExechostStartup,
	hostapi.EventPeriodic:    (*hook).ExechostPeriodic,
	hostapi.EventBegin:       (*hook).ExecjobBegin,
	hostapi.EventLaunch:      (*hook).ExecjobLaunch,
	hostapi.EventAttach:      (*hook).ExecjobAttach,
	hostapi.EventResize:      (*hook).ExecjobResize,
	hostapi.EventPostsuspend: (*hook).ExecjobPostsuspend,
	hostapi.EventPreresume:   (*hook).ExecjobPreresume,
	hostapi.EventPreterm:     (*hook).ExecjobPreterm,
	hostapi.EventEpilogue:    (*hook).ExecjobEpilogue,
	hostapi.EventEnd:         (*hook).ExecjobEnd,
	hostapi.EventAbort:       (*hook).ExecjobAbort,
}

// newNode starts a hook and sends it startup.
func newNode(t testing.TB, n node, roots kernfs.Roots, opt cgroup.Options, edit func(*config.File)) *node {
	t.Helper()
	p, err := newPolicy(nil)
	must.NoError(t, err)
	if edit != nil {
		edit(&p.File)
	}
	opt.Controllers = p.Placing()
	log := logrus.New()
	log.SetOutput(t.Output())
	n.t, n.jobs, n.devices = t, map[string]*hostapi.Job{}, &inventory.Inventory{}
	n.boot = func() *hook {
		h, err := open(p, roots, opt, logrus.NewEntry(log))
		must.NoError(t, err)
		h.kmsg = noKmsg
		h.inventory = func() (*inventory.Inventory, error) {
			if n.devices == nil {
				return nil, fs.ErrNotExist
			}
			return n.devices, nil
		}
		if opt.Signal != nil { // processes in memory have no pidfds
			h.hold = holdByStartTime
			type rlimits = map[string]proc.Rlimit
			h.setRlimits = func(*kernfs.FS, hostapi.ProcessID, rlimits, func(string) bool) error { return nil }
		}
		return h
	}
	n.hook = n.boot()
	t.Cleanup(n.close)
	n.do(hostapi.EventStartup, "")
	return &n
}

func noKmsg() (io.ReadCloser, error) { return io.NopCloser(&records{}), nil }

// die ends everything that would end with the hook's process.
func (h *hook) die() {
	h.background.Wait()
	h.mu.Lock()
	ids := slices.Collect(maps.Keys(h.table))
	h.mu.Unlock()
	for _, id := range ids {
		h.unwatch(id)
	}
	if h.unlockTree != nil {
		h.unlockTree()
		h.unlockTree = nil
	}
}

// close ends the jobs that a test has left. Nothing may remain of them.
func (n *node) close() {
	n.t.Helper()
	defer n.hook.die()
	for _, id := range slices.Sorted(maps.Keys(n.jobs)) {
		n.do(hostapi.EventEpilogue, id)
		n.do(hostapi.EventEnd, id)
	}
	n.want()
}

// reboot starts another hook in place of one that died.
func (n *node) reboot() {
	n.hook.die()
	n.hook = n.boot()
}

// restart makes the hook die and replaces it, as the host does.
func (n *node) restart() {
	n.t.Helper()
	n.reboot()
	n.align(n.do(hostapi.EventStartup, ""))
	n.background.Wait()
}

// job returns the host's record of the job; a new job requests one cpu and 64 MiB.
func (n *node) job(id string) *hostapi.Job {
	if j := n.jobs[id]; j != nil {
		return j
	}
	return &hostapi.Job{ID: id, ResourceList: hostapi.Resources{"ncpus": "1", "mem": "64mb"}}
}

// event sends an event and keeps what the host would keep.
func (n *node) event(e hostapi.Event, id string, edit ...func(*hostapi.Request)) (*hostapi.Outcome, error) {
	n.t.Helper()
	req := &hostapi.Request{Event: e, Node: testNode}
	if e.ForJob() {
		job := *n.job(id)
		if e == hostapi.EventEpilogue || e == hostapi.EventEnd || e == hostapi.EventAbort {
			job.Phase = hostapi.PhaseExiting
		}
		req.Job = &job
	} else {
		req.JobList = map[string]*hostapi.Job{}
		for id, j := range n.jobs {
			job := *j
			req.JobList[id] = &job
		}
	}
	for _, f := range edit {
		f(req)
	}
	out, err := n.send(req)
	switch {
	case !e.ForJob() || out == nil:
	case e == hostapi.EventBegin && err == nil && !out.Reject:
		job := *req.Job
		n.jobs[id] = &job
		fallthrough
	default:
		if j := n.jobs[id]; j != nil && out.State != nil {
			j.State = out.State
		}
		if (e == hostapi.EventEnd || e == hostapi.EventAbort) && err == nil {
			delete(n.jobs, id)
		}
	}
	if j := n.jobs[id]; j != nil {
		advance(j, e, err)
	}
	return out, err
}

// advance changes the job's phase as the host does.
func advance(j *hostapi.Job, e hostapi.Event, err error) {
	switch {
	case e == hostapi.EventBegin:
		j.Phase = hostapi.PhasePrerun
	case e == hostapi.EventLaunch && err == nil && j.Phase == hostapi.PhasePrerun,
		e == hostapi.EventPreresume && err == nil, e == hostapi.EventPreterm:
		j.Phase = hostapi.PhaseRunning
	case e == hostapi.EventPostsuspend:
		j.Phase = hostapi.PhaseSuspended
	case e == hostapi.EventEpilogue, e == hostapi.EventEnd, e == hostapi.EventAbort:
		j.Phase = hostapi.PhaseExiting
	}
	if e == hostapi.EventLaunch {
		j.Elapsed = time.Second
	}
}

// align sends the events that the host sends if the kernel's state differs from the job's phase.
func (n *node) align(out *hostapi.Outcome) {
	n.t.Helper()
	for id, u := range out.Jobs {
		if u.Frozen == nil {
			continue
		}
		e := hostapi.EventPreresume
		if n.job(id).Phase == hostapi.PhaseSuspended {
			e = hostapi.EventPostsuspend
		}
		n.do(e, id)
	}
}

func (n *node) send(req *hostapi.Request) (*hostapi.Outcome, error) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return n.sendCtx(ctx, req)
}

func (n *node) sendCtx(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error) {
	n.t.Helper()
	out, err := methods[req.Event](n.hook, ctx, req)
	if out != nil {
		if err := out.Check(req.Event); err != nil {
			n.t.Errorf("%s: %v", req.Event, err)
		}
	}
	return out, err
}

// do sends an event that must succeed.
func (n *node) do(e hostapi.Event, id string, edit ...func(*hostapi.Request)) *hostapi.Outcome {
	n.t.Helper()
	out, err := n.event(e, id, edit...)
	if err != nil {
		n.t.Fatalf("%s %s: %v", e, id, err)
	}
	if out.Reject {
		n.t.Fatalf("%s %s: rejected: %s", e, id, out.Message)
	}
	return out
}

// kindHeld stands for an error that became a rejection with a hold of the job.
const kindHeld hostapi.Kind = "held"

// refusal returns the kind and text of a refusal, or "" if the event was accepted.
func refusal(out *hostapi.Outcome, err error) (hostapi.Kind, string) {
	switch {
	case err != nil && out == nil:
		return hostapi.KindOf(err), err.Error()
	case err == nil && out.Reject && out.OnReject == hostapi.JobActionHold:
		return kindHeld, out.Message
	case err == nil && !out.Reject:
		return "", ""
	}
	return "neither error nor rejection that holds", fmt.Sprintf("%+v, %v", out, err)
}

// asks sets the job's request: "ncpus=2", "mem=1gb".
func asks(resources ...string) func(*hostapi.Request) {
	return func(req *hostapi.Request) {
		req.Job.ResourceList = hostapi.Resources{}
		for _, r := range resources {
			name, value, _ := strings.Cut(r, "=")
			req.Job.ResourceList[name] = value
		}
	}
}

func withPID(pid int) func(*hostapi.Request) { return func(req *hostapi.Request) { req.PID = pid } }

func ownedBy(uid int) func(*hostapi.Request) {
	return func(req *hostapi.Request) { req.Job.Owner.UID = uid }
}

// begin sends begin and waits until the job is watched. Memory that is charged before that would
// not be sampled.
func (n *node) begin(id string, edit ...func(*hostapi.Request)) *hostapi.Outcome {
	n.t.Helper()
	out := n.do(hostapi.EventBegin, id, edit...)
	for n.tree.Has("memory") {
		u, err := n.cgroup(id).Usage()
		must.NoError(n.t, err)
		if u.MemPeak != nil {
			break
		}
		runtime.Gosched()
	}
	return out
}

// launch starts a process of the job.
func (n *node) launch(id string) int {
	n.t.Helper()
	return n.start(n.t, n.launches(id))
}

// launches returns a function that moves processes into the job, as launch does with those that MoM
// starts.
func (n *node) launches(id string) (enter func(pid int)) {
	return func(pid int) {
		n.t.Helper()
		n.do(hostapi.EventLaunch, id, withPID(pid))
	}
}

// state returns what the hook knows about a job.
func (n *node) state(id string) state {
	n.t.Helper()
	s, _, err := stateOf(n.job(id), testNode, n.cgroup(id))
	must.NoError(n.t, err)
	return s
}

// cpus returns the cpus that a job was granted.
func (n *node) cpus(id string) string {
	n.t.Helper()
	l := n.state(id).Limits
	if l == nil {
		n.t.Fatalf("job %s: nobody noted its limits", id)
	}
	return l.CPUs.String()
}

// attached returns the number of attached processes that is stored with the job's cgroup.
func (n *node) attached(id string) int {
	n.t.Helper()
	count, err := n.cgroup(id).Attached()
	must.NoError(n.t, err)
	return count
}

func (n *node) cgroup(id string) *cgroup.Job {
	n.t.Helper()
	j, err := n.tree.Job(id)
	must.NoError(n.t, err)
	return j
}

// inside returns the processes in the job's cgroup.
func (n *node) inside(id string) []int {
	n.t.Helper()
	pids, err := n.cgroup(id).Processes()
	must.NoError(n.t, err)
	return pids
}

// limitsNow returns the kernel's limits for a job.
func (n *node) limitsNow(id string) cgroup.Limits {
	n.t.Helper()
	l, err := n.cgroup(id).Limits()
	must.NoError(n.t, err)
	return l
}

// limits returns some limits for a job with these cpus.
func (n *node) limits(cpus string) cgroup.Limits {
	n.t.Helper()
	set, err := kernfs.ParseIDSet(cpus)
	must.NoError(n.t, err)
	return cgroup.Limits{CPUs: set}
}

// want checks which jobs have a cgroup.
func (n *node) want(ids ...string) {
	n.t.Helper()
	there, err := n.tree.JobIDs()
	must.NoError(n.t, err)
	if !slices.Equal(there, ids) {
		n.t.Errorf("cgroups of jobs %v, want %v", there, ids)
	}
}
