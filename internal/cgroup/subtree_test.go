package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc/proctest"
)

// kernelSubtree returns a job of the running kernel's v2 tree whose main belongs to ownerUID.
func kernelSubtree(t *testing.T) (tree *Tree, j *Job, main string) {
	t.Helper()
	tree = needKernel(t, ModeV2).tree(t)
	if !tree.Delegates() {
		kernfstest.Elsewhere(t, "no cgroup.kill, which is in Linux 5.14")
	}
	j, dir, ok := delegated(t, tree)
	if !ok {
		t.Fatal("not delegated")
	}
	return tree, j, dir.Path(".")
}

// ownersAttempts is what a job's owner does inside main, and tries outside of it. It prints what
// succeeds.
const ownersAttempts = `
mkdir t && echo threaded > t/cgroup.type && cat t/cgroup.type
rmdir t && echo removed
mkdir a a/b || exit
for d in a a/b a; do echo $$ > $d/cgroup.procs && grep -o '/main/.*' /proc/self/cgroup; done
echo 1 > a/b/cgroup.freeze && cat a/b/cgroup.freeze
chmod 755 . && chmod 600 cgroup.procs && echo chmod
for f in ../cgroup.procs ../../cgroup.procs ../../../cgroup.procs ../../13.server/main/cgroup.procs; do
	(echo $$ > $f) 2> /dev/null && echo "left by $f"
done
for f in cgroup.max.depth cgroup.max.descendants cgroup.freeze cgroup.kill cgroup.type cgroup.pressure \
	cgroup.stat memory.max memory.low memory.oom.group cpu.max cpu.weight pids.max; do
	for f in $f ../$f ../../$f; do
		chmod 666 $f 2> /dev/null && echo "chmod $f"
		(: > $f) 2> /dev/null && echo "opened $f"
	done
done
(: > ../cgroup.subtree_control) 2> /dev/null && echo "opened ../cgroup.subtree_control"
for d in ../x ../../x ../outer/x ../../13.server/main/x; do mkdir $d 2> /dev/null && echo "made $d"; done
rmdir ../main 2> /dev/null && echo "removed main"
mv a ../moved 2> /dev/null && echo "moved a"
echo end
read line
`

// The owner of a job may do with main what a container runtime does. But the owner cannot change a
// limit, leave the job or enter another one, even of the same owner.
func TestOwnerOfADelegatedJobStaysInMain(t *testing.T) {
	tree, j, main := kernelSubtree(t)
	other := newJob(t, tree, "13.server", tree.someLimits())
	must.NoError(t, other.Split(), other.Delegate(ownerUID))
	shell := &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", "cd " + main + "\n" + ownersAttempts},
		Env: []string{"PATH=/usr/bin:/bin", proctest.As(ownerUID)}}
	p := proctest.Start(t, shell, func(pid int) { must.NoError(t, attach(j, pid)) })
	var got []string
	for len(got) == 0 || got[len(got)-1] != "end" {
		line, err := p.Out.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) || line == "" {
			t.Fatalf("%v after %q", err, got)
		}
		got = append(got, strings.TrimSuffix(line, "\n"))
	}
	want := []string{"threaded", "removed", "/main/a", "/main/a/b", "/main/a", "1", "chmod",
		"made ../../13.server/main/x", "end"}
	must.Equal(t, "what the owner could do", want, got)
	pids, err := j.Processes()
	wantPids(t, "in the job", pids, err, p.PID)
	for _, file := range []string{"", "/a"} {
		asUser(t, ownerUID+1, func() {
			if err := unix.Mkdir(main+file+"/x", 0o755); !errors.Is(err, unix.EACCES) {
				t.Errorf("another user makes a cgroup in main%s: %v", file, err)
			}
		})
	}
	_, err = j.Kill(soon(t))
	must.NoError(t, err, j.Remove(soon(t)))
}

// A process of a job in a threaded cgroup of its owner's is seen and killed.
func TestThreadedCgroupOfADelegatedJob(t *testing.T) {
	_, j, main := kernelSubtree(t)
	a := startActor(t, j.Join())
	threaded := main + "/t"
	must.NoError(t, os.Mkdir(threaded, 0o755), os.Chown(threaded, ownerUID, -1))
	must.NoError(t, os.WriteFile(threaded+"/cgroup.type", []byte("threaded"), 0))
	tasks, err := os.ReadDir(filepath.Join("/proc", fmt.Sprint(a.pid()), "task"))
	must.NoError(t, err)
	for _, task := range tasks {
		must.NoError(t, os.WriteFile(threaded+"/cgroup.threads", []byte(task.Name()), 0))
	}
	pids, err := j.Processes()
	wantPids(t, "in the job", pids, err, a.pid())
	must.NoError(t, attach(j, a.pid()), j.Suspend(soon(t)), j.Thaw(soon(t)))
	_, err = j.Kill(soon(t))
	must.NoError(t, err)
	a.gone(t)
	must.NoError(t, j.Remove(soon(t)))
}

// The owner of a delegated job, outside of it, can hold the lock of its directories. The job ends
// all the same, other jobs begin and end, and the cgroup is removed when the lock is free. Until
// then the owner cannot create cgroups that would have to be removed as well.
func TestHeldDirectoryOfADelegatedJobHoldsUpNoOther(t *testing.T) {
	for name, tt := range map[string]struct {
		held string
		made []string
	}{
		"main without others": {"", nil},
		"main":                {"", []string{"/a", "/a/b"}},
		"in main":             {"/a", []string{"/a", "/a/b"}},
		"the deepest":         {"/a/b", []string{"/a", "/a/b"}},
	} {
		t.Run(name, func(t *testing.T) {
			tree, j, main := kernelSubtree(t)
			for _, made := range tt.made {
				must.NoError(t, os.Mkdir(main+made, 0o755), os.Chown(main+made, ownerUID, -1))
			}
			a := startActor(t, j.Join())
			unpin, err := j.Pin()
			must.NoError(t, err)
			defer unpin()
			held := main + tt.held
			release := kernfstest.HoldDirectory(t, held)
			made := make(chan error, 1)
			go func() { made <- unix.Mkdir(held+"/queued", 0o755) }() // those who come after it wait
			// As when memory is short. The test waits here if Processes needs the lock.
			must.NoError(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0))
			pids, err := j.Processes()
			wantPids(t, "in the job", pids, err, a.pid())
			_, err = j.Kill(soon(t))
			must.NoError(t, err)
			a.gone(t)
			short := func() context.Context {
				ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
				t.Cleanup(cancel)
				return ctx
			}
			again, err := Detect(needKernel(t, ModeV2).roots, Options{Prefix: prefixOf(tree), Mode: ModeV2})
			must.NoError(t, err)
			later, err := again.Job(testJob)
			must.NoError(t, err)
			for _, j := range []*Job{j, j, later} { // tried again, and by another process
				began := time.Now()
				err = j.Remove(short())
				wantError(t, err, ErrBusy)
				if took := time.Since(began); took > 30*time.Second {
					t.Errorf("the removal took %v", took)
				}
				if _, err := j.Kill(soon(t)); err != nil {
					t.Error(err)
				}
				other, err := tree.Job("13.server")
				must.NoError(t, err)
				must.NoError(t, other.Create(tree.someLimits()), other.Remove(soon(t)))
			}
			if held != main { // else this would wait too
				if err := unix.Mkdir(main+"/new", 0o755); !errors.Is(err, unix.EAGAIN) {
					t.Errorf("a cgroup was made during the removal, or %v", err)
				}
			}
			if ids, err := tree.JobIDs(); err != nil || !slices.Equal(ids, []string{testJob}) {
				t.Errorf("jobs %q, %v", ids, err)
			}
			release()
			if err := <-made; err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ENOENT) {
				t.Error(err)
			}
			must.NoError(t, j.Remove(soon(t)), later.Remove(soon(t)))
			if j.Exists() {
				t.Error("something is left of the job")
			}
		})
	}
}

// prefixOf returns Options.Prefix of a tree.
func prefixOf(t *Tree) string { return strings.TrimSuffix(t.hierarchies[0].unit, ".service") }
