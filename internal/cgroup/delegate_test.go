package cgroup

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// startUnit plays systemd on a fake kernel for a unit with Delegate=yes.
func startUnit(t *testing.T, k *kernfstest.Kernel, controllers ...string) {
	t.Helper()
	root := k.Roots().Cgroup
	for _, c := range controllers {
		must.NoError(t, root.Write("cgroup.subtree_control", "+"+c))
	}
	must.NoError(t, root.Mkdir("pbs_jobs.service"))
}

func detected(t *testing.T, k *kernfstest.Kernel, opt Options) *Tree {
	t.Helper()
	tree, err := Detect(k.Roots(), opt)
	must.NoError(t, err)
	return tree
}

// A hook may examine the node before systemd has started the unit. Until then the tree expects what
// systemd usually passes down. After Prepare it knows what systemd did pass down.
func TestControllersOfADelegatedUnit(t *testing.T) {
	for _, tt := range []struct {
		name          string
		opt           Options
		systemd       []string // what systemd passes down
		before, after string
	}{
		{"as systemd does", Options{Delegated: true}, []string{"cpuset", "cpu", "io", "memory", "pids"},
			"memory cpuset cpu pids io", "memory cpuset cpu pids io"},
		{"a systemd without cpuset", Options{Delegated: true}, []string{"cpu", "memory", "pids"},
			"memory cpuset cpu pids io", "memory cpu pids"},
		{"one that systemd does not know", Options{Delegated: true, Enable: []string{"hugetlb"}},
			[]string{"cpuset", "cpu", "memory", "pids"},
			"memory cpuset cpu pids hugetlb io", "memory cpuset cpu pids hugetlb"},
		{"a systemd without cpuset, told to", Options{Delegated: true, Enable: []string{"cpuset"}}, []string{"memory"},
			"memory cpuset cpu pids io", "memory cpuset"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := kernfstest.NewV2()
			tree := detected(t, k, tt.opt)
			if got := strings.Join(tree.Controllers(), " "); got != tt.before {
				t.Errorf("before the unit: %s, want %s", got, tt.before)
			}
			if err := tree.Prepare(); !errors.Is(err, ErrNoUnit) {
				t.Errorf("Prepare without the unit: got %v, want ErrNoUnit", err)
			}
			if tree.Prepared() {
				t.Error("Prepared without the unit")
			}
			startUnit(t, k, tt.systemd...)
			must.NoError(t, tree.Prepare())
			if got := strings.Join(tree.Controllers(), " "); got != tt.after {
				t.Errorf("after Prepare: %s, want %s", got, tt.after)
			}
			if got := strings.Join(detected(t, k, tt.opt).Controllers(), " "); got != tt.after {
				t.Errorf("detected again: %s, want %s", got, tt.after)
			}
		})
	}
}

// If no init system does it, Prepare enables in the root the controllers that the configuration
// needs, and nothing else.
func TestEnableInRoot(t *testing.T) {
	k := kernfstest.NewV2()
	tree := detected(t, k, Options{EnableIfThere: []string{"memory", "cpuset", "misc"}})
	must.NoError(t, tree.Prepare())
	b, err := k.Roots().Cgroup.ReadFile("cgroup.subtree_control")
	if err != nil || string(b) != "cpuset memory\n" {
		t.Errorf("the root passes %q, %v", b, err)
	}
	must.Equal(t, "", []string{"memory", "cpuset"}, tree.Controllers())
	k.ResetJournal()
	must.NoError(t, tree.Prepare())
	for _, op := range k.Journal() {
		if op.Op == "write" {
			t.Errorf("written again: %v", op)
		}
	}
	err = detected(t, k, Options{Enable: []string{"misc"}}).Prepare()
	if err == nil || !strings.Contains(err.Error(), "enable controller misc") {
		t.Errorf("a controller that is not there: got %v", err)
	}
	onHybrid := detected(t, kernfstest.NewHybrid(), Options{Enable: []string{"cpuset"}, Delegated: false})
	if err := onHybrid.Prepare(); err != nil {
		t.Errorf("a controller that is on v1: %v", err)
	}
}

// A v2 cgroup that passes controllers down cannot contain processes. The unit's own process is
// moved to its keeper, even after a restart of the unit. A process beside the jobs is not ours to
// move.
func TestPrepareMovesTheKeeper(t *testing.T) {
	k := kernfstest.NewV2()
	startUnit(t, k, "cpuset", "cpu", "memory", "pids")
	pid := k.Spawn("pbs_jobs.service")
	tree := detected(t, k, Options{Delegated: true, Signal: k.Signal})
	must.NoError(t, tree.Prepare())
	if at := k.Cgroup(pid); !strings.Contains(at, "/pbs_jobs.service/keeper") {
		t.Errorf("the keeper is in %q", at)
	}
	if got := strings.Join(tree.Controllers(), " "); got != "memory cpuset cpu pids" {
		t.Errorf("controllers: %s", got)
	}
	if ids, err := tree.JobIDs(); err != nil || len(ids) != 0 {
		t.Errorf("jobs %v, %v", ids, err)
	}
}

func TestPrepareRefusesStrangersAmongJobs(t *testing.T) {
	k := kernfstest.NewV2()
	startUnit(t, k, "cpuset", "cpu", "memory", "pids")
	must.NoError(t, k.Roots().Cgroup.Mkdir("pbs_jobs.service/jobs"))
	k.Spawn("pbs_jobs.service/jobs")
	err := detected(t, k, Options{Delegated: true}).Prepare()
	if err == nil || !strings.Contains(err.Error(), "pbs_jobs.service/jobs/cgroup.procs: processes [") {
		t.Errorf("got %v", err)
	}
}

// An error from the kernel is returned with an explanation.
func TestPrepareExplains(t *testing.T) {
	for _, tt := range []struct {
		op, file string
		errno    unix.Errno
		want     string
	}{
		{"mkdir", "pbs_jobs.service", unix.EROFS, "mounted read-only"},
		{"mkdir", "pbs_jobs.service", unix.EACCES, "not this process's to change"},
		{"write", "pbs_jobs.service/cgroup.subtree_control", unix.EPERM, "not this process's to change"},
		{"write", "pbs_jobs.service/jobs/cgroup.subtree_control", unix.EBUSY, `write "+memory" to`},
	} {
		k := kernfstest.NewV2()
		must.NoError(t, k.Roots().Cgroup.Write("cgroup.subtree_control", "+memory"))
		k.Fail(tt.op, tt.file, tt.errno)
		err := detected(t, k, Options{}).Prepare()
		if !errors.Is(err, tt.errno) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %s %v: got %v, want %q in it", tt.op, tt.file, tt.errno, err, tt.want)
		}
	}
}

// On v1 systemd uses a named hierarchy, and a job is in its unit there as well.
func TestJobIsInSystemdsHierarchy(t *testing.T) {
	k := kernfstest.NewV1()
	tree := detected(t, k, Options{Delegated: true, Signal: k.Signal})
	must.NoError(t, tree.Prepare())
	j, err := tree.Job("1.srv")
	must.NoError(t, err)
	must.NoError(t, j.Create(Limits{}))
	pid := spawnFake(k, j.Join())
	if at := k.Cgroup(pid); !strings.Contains(at, "name=systemd:/pbs_jobs.service/jobid/1.srv") {
		t.Errorf("the job's process is in %s", at)
	}
	if pids, err := j.Processes(); err != nil || len(pids) != 1 || pids[0] != pid {
		t.Errorf("processes %v, %v", pids, err)
	}
	if _, err := j.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := j.Remove(t.Context()); err != nil || k.Roots().Cgroup.Exists("systemd/pbs_jobs.service/jobid/1.srv") {
		t.Errorf("Remove: %v", err)
	}
	if tree.Mode() != ModeV1 || strings.Contains(strings.Join(tree.Controllers(), " "), "systemd") {
		t.Errorf("mode %v, controllers %v", tree.Mode(), tree.Controllers())
	}
}

// A job may have begun outside any unit of systemd, for example before an upgrade. Such a job is
// not in systemd's hierarchy, but processes can still be attached to it.
func TestJobOutsideSystemdsHierarchy(t *testing.T) {
	k := kernfstest.NewV1()
	old := detected(t, k, Options{Signal: k.Signal})
	newJob(t, old, "1.srv", Limits{})
	tree := detected(t, k, Options{Delegated: true, Signal: k.Signal})
	must.NoError(t, tree.Prepare())
	j, err := tree.Job("1.srv")
	must.NoError(t, err)
	pid := k.Spawn()
	must.NoError(t, attach(j, pid))
	if in, ok, err := tree.JobOf(pid); in != "1.srv" || !ok || err != nil {
		t.Errorf("the process is in job %q, %t, %v", in, ok, err)
	}
	spawnFake(k, j.Join())
	if _, err := j.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	if err := j.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if err := attach(j, k.Spawn()); !errors.Is(err, ErrNotFound) {
		t.Errorf("attach to a job that is gone: %v", err)
	}
}
