package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

const ownerUID = 61234

// delegated creates a job whose main belongs to ownerUID, and returns it with main. On a node that
// cannot delegate it checks that the owner gets nothing, and returns false.
func delegated(t *testing.T, tree *Tree) (j *Job, main *kernfs.FS, ok bool) {
	t.Helper()
	j = newJob(t, tree, testJob, tree.someLimits())
	must.NoError(t, j.Split())
	if !tree.Delegates() {
		wantError(t, j.Delegate(ownerUID), ErrUnsupported)
		if d, ok := j.v2(); ok && d.Exists(mainGroup) {
			if st, err := d.Stat(mainGroup); err != nil || st.UID != 0 {
				t.Errorf("main belongs to %d, %v", st.UID, err)
			}
		}
		return nil, nil, false
	}
	for range 2 {
		must.NoError(t, j.Delegate(ownerUID))
	}
	main, err := j.home().Sub(mainGroup)
	must.NoError(t, err)
	return j.WithSubgroups(), main, true
}

// mkdirs creates directories as the owner of main does.
func mkdirs(t *testing.T, main *kernfs.FS, names ...string) {
	t.Helper()
	for _, name := range names {
		must.NoError(t, main.Mkdir(name))
		for _, file := range append(slices.Clone(delegatedFiles), ".") {
			must.NoError(t, main.Chown(name+"/"+file, ownerUID))
		}
	}
}

// moveTo moves processes into a directory below main, as their owner does.
func moveTo(t *testing.T, main *kernfs.FS, name string, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		must.NoError(t, main.Write(name+"/cgroup.procs", fmt.Sprint(pid)))
	}
}

// testDelegate: the owner gets main and three of its files, and nothing else of the job.
func testDelegate(t *testing.T, w world) {
	tree := w.tree(t)
	j, main, ok := delegated(t, tree)
	if !ok {
		return
	}
	files, err := main.Names(".")
	must.NoError(t, err)
	for _, name := range append(files, ".") {
		want := 0
		if name == "." || slices.Contains(delegatedFiles, name) {
			want = ownerUID
		}
		if st, err := main.Stat(name); err != nil || st.UID != want {
			t.Errorf("main/%s belongs to %d, %v; want %d", name, st.UID, err, want)
		}
	}
	files, err = j.home().Names(".")
	must.NoError(t, err)
	for _, name := range append(files, ".") {
		if st, err := j.home().Stat(name); name != mainGroup && (err != nil || st.UID != 0) {
			t.Errorf("%s of the job belongs to %d, %v", name, st.UID, err)
		}
	}
}

// testDelegateBounds: the owner's directories cannot be deeper, or more, than the job can be read
// and removed with, whatever their names.
func testDelegateBounds(t *testing.T, w world) {
	tree := w.tree(t)
	j, main, ok := delegated(t, tree)
	if !ok {
		return
	}
	long := strings.Repeat("n", 255)
	deep := long
	for range 9 {
		mkdirs(t, main, deep)
		deep += "/" + long
	}
	mkdirs(t, main, deep)
	wantError(t, main.Mkdir(deep+"/"+long), unix.EAGAIN)
	p := w.start(t, j.Join())
	moveTo(t, main, deep, p.pid())
	if id, ok, err := tree.JobOf(p.pid()); err != nil || !ok || id != testJob {
		t.Errorf("a process at the greatest depth is in job %q, %v, %v", id, ok, err)
	}
	pids, err := j.Processes()
	wantPids(t, "in the job", pids, err, p.pid())
	names := []string{mainGroup, outerGroup, "rank.0", " ", "\\", "\xff", "job*"}
	mkdirs(t, main, names...)
	for i := range 1000 - 10 - len(names) {
		must.NoError(t, main.Mkdir(fmt.Sprint(i)))
	}
	wantError(t, main.Mkdir("more"), unix.EAGAIN)
	endsWhole(t, j, "in the job", p)
}

// endsWhole kills the job's processes, which are these and their children, and removes the job.
// Nothing is left of it.
func endsWhole(t *testing.T, j *Job, what string, processes ...process) {
	t.Helper()
	if _, err := j.Kill(soon(t)); err != nil {
		t.Error(err)
	}
	for _, p := range processes {
		p.gone(t)
	}
	pids, err := j.Processes()
	wantPids(t, what, pids, err)
	must.NoError(t, j.Remove(soon(t)))
	if j.Exists() {
		t.Error("something is left of the job")
	}
}

// testDelegateProcesses: processes that the owner moved below main belong to the job in every
// respect.
func testDelegateProcesses(t *testing.T, w world) {
	tree := w.tree(t)
	j, main, ok := delegated(t, tree)
	if !ok {
		return
	}
	p, q, r := w.start(t, j.Join()), w.start(t, j.Join()), w.start(t, Join{})
	mkdirs(t, main, "a", "a/b", "frozen")
	moveTo(t, main, "a/b", q.pid())
	inside := append(q.fork(t, 2), q.pid())
	must.NoError(t, attach(j, r.pid(), q.pid())) // q stays where its owner moved it
	pids, err := j.Processes()
	wantPids(t, "in the job", pids, err, append([]int{p.pid(), r.pid()}, inside...)...)
	pids, err = j.Entered()
	wantPids(t, "to be signalled", pids, err, append([]int{p.pid(), r.pid()}, inside...)...)
	pids, err = j.Ungrouped()
	wantPids(t, "ranks may be among", pids, err, p.pid(), r.pid())
	if name, ok, err := j.SubgroupOf(q.pid()); err != nil || ok {
		t.Errorf("subgroup %q, %v, %v of a process in a cgroup of the owner's", name, ok, err)
	}
	if full, err := j.Populated(); err != nil || !full {
		t.Errorf("populated: %v, %v", full, err)
	}
	moveTo(t, main, "frozen", r.pid())
	must.NoError(t, main.Write("frozen/cgroup.freeze", "1"))
	must.NoError(t, j.Suspend(soon(t)))
	must.NoError(t, j.Thaw(soon(t)))
	must.NoError(t, j.MakeSubgroup("rank.0", nil))
	must.NoError(t, attachSubgroup(j, "rank.0", p.pid()))
	pids, err = j.Processes()
	wantPids(t, "in the job", pids, err, append([]int{p.pid(), r.pid()}, inside...)...)
	endsWhole(t, j, "in the job", p, q, r)
}

// testDelegateInner: the owner may pass controllers down from main. Then it accepts no process,
// and others still join the job.
func testDelegateInner(t *testing.T, w world) {
	tree := w.tree(t)
	j, main, ok := delegated(t, tree)
	if !ok {
		return
	}
	if !tree.Has("memory") || !tree.Has("cpu") {
		kernfstest.Elsewhere(t, "no memory or cpu controller")
	}
	p, q := w.start(t, j.Join()), w.start(t, Join{})
	mkdirs(t, main, "a")
	moveTo(t, main, "a", p.pid())
	for _, c := range []string{"memory", "cpu", "pids"} {
		must.NoError(t, main.Write("cgroup.subtree_control", "+"+c))
	}
	must.NoError(t, main.Write("a/memory.max", fmt.Sprint(32<<20)))
	must.NoError(t, attach(j, q.pid()))
	must.NoError(t, attach(j, q.pid()))
	pids, err := j.Processes()
	wantPids(t, "in the job", pids, err, p.pid(), q.pid())
	pids, err = j.Ungrouped()
	wantPids(t, "ranks may be among", pids, err, q.pid())
	if name, ok, err := j.SubgroupOf(q.pid()); err != nil || ok {
		t.Errorf("subgroup %q, %v, %v of a process in outer", name, ok, err)
	}
	if groups, err := j.Subgroups(); err != nil || len(groups) > 0 {
		t.Errorf("subgroups %v, %v", groups, err)
	}
	l := tree.someLimits()
	l.Mem = size(128 << 20)
	must.NoError(t, j.Apply(l, nil))
	forked := p.fork(t, 3)
	must.NoError(t, main.Write("a/cpu.max", "1000 1000000"))
	endsWhole(t, j, fmt.Sprintf("in the job, where %v have been", forked), p, q)
}

// testDelegateOOM: a limit of the owner's kills below main alone, and the job counts it.
func testDelegateOOM(t *testing.T, w world) {
	tree := w.tree(t)
	j, main, ok := delegated(t, tree)
	if !ok {
		return
	}
	if !tree.Has("memory") {
		kernfstest.Elsewhere(t, "no memory controller")
	}
	p, q := w.start(t, j.Join()), w.start(t, j.Join())
	mkdirs(t, main, "a", "b")
	moveTo(t, main, "a", p.pid())
	moveTo(t, main, "b", q.pid())
	must.NoError(t, main.Write("cgroup.subtree_control", "+memory"))
	must.NoError(t, main.Write("b/memory.max", fmt.Sprint(32<<20)))
	if tree.Has("memsw") {
		must.NoError(t, main.Write("b/memory.swap.max", "0"))
	}
	q.touch(t, 128<<20)
	q.gone(t)
	pids, err := j.Processes()
	wantPids(t, "in the job", pids, err, p.pid())
	u, err := j.Usage()
	if err != nil || u.OOMKills == nil || *u.OOMKills != 1 {
		t.Errorf("kills in the job: %v, %v; want 1", u.OOMKills, err)
	}
	if u.CgroupPeak != nil && *u.CgroupPeak < 30<<20 {
		t.Errorf("the job's peak is %d, want what was used below main", *u.CgroupPeak)
	}
}

// testDelegateEmpty: a job that never had a process is removed, and removed again.
func testDelegateEmpty(t *testing.T, w world) {
	tree := w.tree(t)
	j, main, ok := delegated(t, tree)
	if !ok {
		return
	}
	mkdirs(t, main, "a", "a/b")
	_, err := j.Kill(soon(t))
	if err := errors.Join(err, j.Remove(soon(t)), j.Remove(soon(t))); err != nil {
		t.Error(err)
	}
	if j.Exists() {
		t.Error("something is left of the job")
	}
}
