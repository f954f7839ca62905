package main

import (
	"fmt"
	"path"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

func delegate(c *config.File) { c.Cgroup.Delegate = true }

func onFirstHost(req *hostapi.Request) { req.Job.MotherSuperior = true }

// main returns the directory main of a job in the v2 tree.
func (n *node) main(k *kernfstest.Kernel, id string) *kernfs.FS {
	n.t.Helper()
	main, err := k.Roots().Cgroup.Sub(path.Join("pbs_jobs.service/jobs", id, "main"))
	must.NoError(n.t, err)
	return main
}

// With delegate the owner of a job gets a cgroup on v2, whatever the setting is later. The job's
// events work as before, although its owner passes controllers down.
func TestOwnerOfAJobGetsACgroup(t *testing.T) {
	n, k := fakeNode(t, kernfstest.NewV2, delegate)
	const id, uid = "1.srv", 1234
	n.begin(id, ownedBy(uid), onFirstHost)
	main := n.main(k, id)
	if st, err := main.Stat("."); err != nil || st.UID != uid {
		t.Errorf("main belongs to %d, %v; want %d", st.UID, err, uid)
	}
	n.policy.Cgroup.Delegate = false
	n.jobs[id].State = nil // the host lost its record, but the cgroup's mark has the setting
	shell := n.launch(id)
	b, err := main.ReadFile("cgroup.procs")
	if err != nil || string(b) != fmt.Sprintln(shell) {
		t.Errorf("main has %q, %v; want the job's program %d", b, err, shell)
	}
	must.NoError(t, main.Mkdir("a"), main.Chown("a", uid))
	must.NoError(t, main.Write("a/cgroup.procs", fmt.Sprint(shell)), main.Write("cgroup.subtree_control", "+memory"))
	n.restart()
	second := n.launch(id)
	k.SetProcess(second, kernfstest.Attributes{UID: uid})
	third := n.start(t, nil)
	k.SetProcess(third, kernfstest.Attributes{UID: uid})
	n.do(hostapi.EventAttach, id, ownedBy(uid), withPID(third))
	if got, want := n.inside(id), []int{shell, second, third}; !slices.Equal(got, want) {
		t.Errorf("the job has processes %v, want %v", got, want)
	}
	n.do(hostapi.EventPostsuspend, id)
	n.frozen(id, true)
	n.do(hostapi.EventPreresume, id)
	if _, err := n.resize(id, "ncpus=1", "mem=128mb"); err != nil {
		t.Error(err)
	}
	n.report(id)
	if out := n.do(hostapi.EventEpilogue, id); out.Usage.Kill == nil || out.Usage.Kill.Stragglers != 3 {
		t.Errorf("at the end: %+v", out.Usage.Kill)
	}
	n.do(hostapi.EventEnd, id)
	n.want()
	n.begin("2.srv", ownedBy(uid))
	if main := n.main(k, "2.srv"); main.Exists(".") {
		t.Error("a job that began without the setting has a cgroup for its owner")
	}
}

// A job's owner could freeze what is in the owner's cgroup, whoever it belongs to. pbs_mom waits
// for each task but the first, so none of these is there, and no process of root's that a login
// has.
func TestOwnerOfACgroupCannotFreezeWhatMoMWaitsFor(t *testing.T) {
	n, k := fakeNode(t, kernfstest.NewV2, delegate)
	const uid = 1234
	in := func(id, group string) string {
		b, err := k.Roots().Cgroup.ReadFile(path.Join("pbs_jobs.service/jobs", id, group, "cgroup.procs"))
		must.NoError(t, err)
		return string(b)
	}
	n.begin("1.srv", ownedBy(uid), onFirstHost)
	first, task, sshd, users := n.launch("1.srv"), n.launch("1.srv"), n.start(t, nil), n.start(t, nil)
	k.SetProcess(users, kernfstest.Attributes{UID: uid})
	n.do(hostapi.EventAttach, "1.srv", ownedBy(uid), withPID(sshd), func(req *hostapi.Request) { req.Login = true })
	n.do(hostapi.EventAttach, "1.srv", ownedBy(uid), withPID(users))
	must.Equal(t, "the owner's cgroup", fmt.Sprintf("%d\n%d\n", first, users), in("1.srv", "main"))
	must.Equal(t, "outer", fmt.Sprintf("%d\n%d\n", task, sshd), in("1.srv", "outer"))
	// An owner can choose resources that leave no room in the job's mark for its first launch.
	n.begin("3.srv", ownedBy(uid), onFirstHost)
	heal := k.Fail("setxattr", "3.srv", unix.E2BIG)
	_, err := n.event(hostapi.EventLaunch, "3.srv", withPID(n.start(t, nil)))
	if hostapi.KindOf(err) != hostapi.KindJob {
		t.Errorf("a launch that cannot be marked: %v", err)
	}
	heal()
	n.begin("2.srv", ownedBy(uid))
	sister := n.launch("2.srv")
	must.Equal(t, "outer on a sister host", fmt.Sprintln(sister), in("2.srv", "outer"))
}

// Ranks of a delegated job get subgroups too. Those that their owner has moved stay there.
func TestRanksOfADelegatedJob(t *testing.T) {
	n, k := fakeNode(t, kernfstest.NewV2, func(c *config.File) { delegate(c); perTask(c) })
	const id, uid = "1.srv", 1234
	n.begin(id, ownedBy(uid), onFirstHost)
	main, shell := n.main(k, id), n.launch(id)
	first := forkAs(t, k, shell, ompi("a", 0))
	second := forkAs(t, k, shell, ompi("a", 1))
	must.NoError(t, main.Mkdir("rank.1"), main.Chown("rank.1", uid))
	must.NoError(t, main.Write("rank.1/cgroup.procs", fmt.Sprint(second)))
	n.report(id)
	n.wantSubgroups(id, map[int]string{shell: "", first: "rank.0", second: ""})
	if got, want := n.inside(id), []int{shell, first, second}; !slices.Equal(got, want) {
		t.Errorf("the job has processes %v, want %v", got, want)
	}
}

// Where cgroups cannot be delegated, jobs run without.
func TestDelegateHasNoEffectOnV1(t *testing.T) {
	onFakes(t, delegate, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		const id = "1.srv"
		n.begin(id, ownedBy(1234))
		if got := n.state(id).Delegated; got != n.tree.Delegates() {
			t.Errorf("delegated: %v", got)
		}
		pid := n.launch(id)
		if got := n.inside(id); !slices.Equal(got, []int{pid}) {
			t.Errorf("the job has processes %v, want %d", got, pid)
		}
	})
}

// A job whose cgroup cannot be given to its owner does not begin, and nothing of it stays.
func TestDelegateFails(t *testing.T) {
	for _, fault := range []struct{ op, suffix string }{
		{"chown", "main"}, {"chown", "main/cgroup.procs"}, {"write", "main/cgroup.max.depth"},
		{"read", "main/cgroup.max.descendants"},
	} {
		t.Run(fault.op+" "+path.Base(fault.suffix), func(t *testing.T) {
			n, k := fakeNode(t, kernfstest.NewV2, delegate)
			heal := k.Fail(fault.op, fault.suffix, unix.EIO)
			if out, err := n.event(hostapi.EventBegin, "1.srv", ownedBy(1234)); err == nil {
				t.Errorf("begin: %+v", out)
			}
			heal()
			n.want()
		})
	}
}
