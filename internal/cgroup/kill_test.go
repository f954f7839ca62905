package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc/proctest"
)

// TestKillStuck: a process that cannot die is named, with its state.
func TestKillStuck(t *testing.T) {
	for _, w := range []fake{{kernfstest.NewV1}, {kernfstest.NewHybrid}} {
		t.Run("", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := w.boot()
				tree := fakeTree(t, k)
				j, err := tree.Job(testJob)
				must.NoError(t, err)
				must.NoError(t, j.Create(Limits{}))
				pid := spawnFake(k, j.Join())
				k.SetProcess(pid, kernfstest.Attributes{Comm: "nfs (client)"})
				k.Stick(pid)
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				start := time.Now()
				_, err = j.Kill(ctx)
				if !errors.Is(err, ErrNotEmpty) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got error %v", err)
				}
				if want := fmt.Sprintf("%d (nfs (client)) D", pid); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error does not say %q: %v", want, err)
				}
				if took := time.Since(start); took < 5*time.Second {
					t.Errorf("it gave up after %v", took)
				}
				wantError(t, j.Remove(ctx), ErrBusy)
				k.Unstick(pid)
				if _, err := j.Kill(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestSuspendStuck: a job of which not every process stops can be thawed.
func TestSuspendStuck(t *testing.T) {
	for _, w := range []fake{{kernfstest.NewV1}, {kernfstest.NewV2}} {
		t.Run("", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := w.boot()
				tree := fakeTree(t, k)
				j, err := tree.Job(testJob)
				must.NoError(t, err)
				must.NoError(t, j.Create(Limits{}))
				pid := spawnFake(k, j.Join())
				k.Stick(pid)
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				wantError(t, j.Suspend(ctx), context.DeadlineExceeded)
				if err := j.Thaw(context.Background()); err != nil {
					t.Error(err)
				}
				k.Unstick(pid)
			})
		})
	}
}

// TestKillForks: a job that forks as fast as it can does not escape, with cgroup.kill or without.
func TestKillForks(t *testing.T) {
	for _, mode := range []Mode{0, ModeV1} {
		t.Run(mode.String(), func(t *testing.T) {
			w := needKernel(t, mode)
			tree := w.tree(t)
			l := tree.someLimits()
			if tree.Has("pids") {
				l.Pids = size(500)
			}
			j := newJob(t, tree, testJob, l)
			a := startActor(t, j.Join())
			a.ask(t, "bomb")
			must.Eventually(t, "the job to grow", func() bool { pids, _ := j.Processes(); return len(pids) > 20 })
			_, err := j.Kill(soon(t))
			must.NoError(t, err)
			if pids, err := j.Processes(); err != nil || len(pids) != 0 {
				t.Errorf("%v survived, %v", pids, err)
			}
		})
	}
}

// TestKillBesideABusyJob: the processes of a job with hardly any cpu time die as fast as others.
func TestKillBesideABusyJob(t *testing.T) {
	const n, limit = 300, 4 * time.Second
	w := needKernel(t, 0)
	tree := w.tree(t)
	if !tree.Has("cpu") || !tree.Has("cpuset") {
		kernfstest.Elsewhere(t, "no cpu and cpuset controllers")
	}
	l := tree.someLimits() // of one cpu
	l.CPUShares = 2000
	busy := newJob(t, tree, "2.server", l)
	l.CPUShares, l.Quota = 2, 20*time.Millisecond
	l.CPUs = kernfs.IDSet{}
	j := newJob(t, tree, testJob, l)
	a, b := startActor(t, j.Join()), startActor(t, busy.Join())
	a.fork(t, n)
	burns := make(chan string)
	go func() { burns <- b.ask(t, "burn 10m") }()
	must.Eventually(t, "the other job to be busy", func() bool {
		used, err := busy.CPUTime()
		return err == nil && used > 200*time.Millisecond
	})
	start := time.Now()
	_, err := j.Kill(soon(t))
	if took := time.Since(start); err != nil || took > limit {
		t.Errorf("%v, %v; want %v at most", took, err, limit)
	}
	if _, err := busy.Kill(soon(t)); err != nil {
		t.Error(err)
	}
	<-burns
}

// TestKillOutsideV2: a process that is only in v1 hierarchies is killed as well.
func TestKillOutsideV2(t *testing.T) {
	kernfstest.NeedV1(t, "cpu")
	kernfstest.NeedV2(t)
	w := needKernel(t, 0)
	tree := w.tree(t)
	if tree.Mode() != ModeHybrid {
		kernfstest.Skip(t, "mode %v", tree.Mode())
	}
	j := newJob(t, tree, testJob, tree.someLimits())
	a := startActor(t, Join{Tasks: j.Join().Tasks})
	b := startActor(t, Join{CgroupDir: j.Join().CgroupDir})
	if pids, err := j.Processes(); err != nil || len(pids) != 2 {
		t.Errorf("processes are %v, %v", pids, err)
	}
	if _, err := j.Kill(soon(t)); err != nil {
		t.Fatal(err)
	}
	a.gone(t)
	b.gone(t)
}

// TestKillWithoutFirstThread: a process whose first thread has ended is killed as well, even if it
// ended before the process was moved. On v1 its cgroup is not shown as that of other processes. On
// v2 cgroup.kill does not end it, and cgroup.procs may show the first thread's cgroup.
func TestKillWithoutFirstThread(t *testing.T) {
	for _, mode := range []Mode{0, ModeV1, ModeV2} {
		t.Run(mode.String(), func(t *testing.T) {
			tree := needKernel(t, mode).tree(t)
			j := newJob(t, tree, testJob, tree.someLimits())
			born := proctest.StartHeadless(t, func(pid int) { j.Join().enter(t, pid) })
			moved := proctest.StartHeadless(t, nil)
			must.NoError(t, attach(j, moved.PID))
			for _, p := range []*proctest.Process{born, moved} {
				if id, ok, err := tree.JobOf(p.PID); id != testJob || !ok || err != nil {
					t.Errorf("job is %q, %v, %v", id, ok, err)
				}
			}
			_, err := j.Kill(soon(t))
			must.NoError(t, err)
			for _, p := range []*proctest.Process{born, moved} {
				_, err = p.Wait(soon(t))
				must.NoError(t, err)
			}
			must.NoError(t, j.Remove(soon(t)))
		})
	}
}

// TestJobOf: a process belongs to its job from any cgroup below the job's, and other processes to
// none.
func TestJobOf(t *testing.T) {
	for _, mode := range []Mode{0, ModeV1, ModeV2} {
		t.Run(mode.String(), func(t *testing.T) {
			w := needKernel(t, mode)
			tree := w.tree(t)
			j := newJob(t, tree, testJob, tree.someLimits())
			a := startActor(t, j.Join())
			below, err := j.home().Sub("below")
			if err == nil {
				err = errors.Join(below.Mkdir("."), below.Write("cgroup.procs", fmt.Sprint(a.pid())))
			}
			must.NoError(t, err)
			if id, ok, err := tree.JobOf(a.pid()); id != testJob || !ok || err != nil {
				t.Errorf("job is %q, %v, %v", id, ok, err)
			}
			for _, h := range tree.hierarchies {
				must.NoError(t, h.mount.Write("cgroup.procs", fmt.Sprint(a.pid())))
			}
			for _, pid := range []int{a.pid(), 1 << 30} {
				if id, ok, err := tree.JobOf(pid); ok || err != nil {
					t.Errorf("process %d: job is %q, %v, %v", pid, id, ok, err)
				}
			}
			if err := j.Remove(soon(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLockProcesses: in each kind of tree the lock works between processes, and is released if its
// process dies. Other users cannot take it. They can still lock and read the files around it, but
// that does not block anybody.
func TestLockProcesses(t *testing.T) {
	flock, err := exec.LookPath("flock")
	if err != nil {
		kernfstest.Skip(t, "%v", err)
	}
	for _, mode := range []Mode{ModeV1, ModeV2} {
		t.Run(mode.String(), func(t *testing.T) {
			tree := needKernel(t, mode).tree(t)
			jobs := tree.hierarchies[0].jobs
			as := func(uid uint32, args ...string) *exec.Cmd {
				cmd := exec.Command(args[0], args[1:]...)
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
				return cmd
			}
			const root, nobody = 0, 65534
			hold := func(path string) (kill func()) {
				t.Helper()
				cmd := as(root, flock, "--exclusive", "--no-fork", path, "sh", "-c", "echo held; exec cat")
				in, err := cmd.StdinPipe()
				must.NoError(t, err)
				out, err := cmd.StdoutPipe()
				must.NoError(t, err)
				must.NoError(t, cmd.Start())
				kill = sync.OnceFunc(func() {
					cmd.Process.Kill()
					in.Close()
					cmd.Wait()
				})
				t.Cleanup(kill)
				if _, err := out.Read(make([]byte, 8)); err != nil {
					t.Fatalf("root cannot lock %s", path)
				}
				return kill
			}
			file := jobs.Path(lockFile)
			try := []string{flock, "--exclusive", "--nonblock", file, "true"}

			kill := hold(file)
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
			defer cancel()
			if _, err := tree.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("lock that another process holds: %v", err)
			}
			kill()
			unlock, err := tree.Lock(soon(t))
			must.NoError(t, err)
			if err := as(root, try...).Run(); err == nil {
				t.Error("another process took the lock that is held here")
			}
			unlock()
			if err := as(nobody, try...).Run(); err == nil {
				t.Error("another user took the lock")
			}
			if err := as(nobody, "cat", path.Dir(path.Dir(file))+"/cgroup.procs").Run(); err != nil {
				t.Errorf("another user cannot read what is above: %v", err)
			}
			if err := as(root, try...).Run(); err != nil {
				t.Errorf("another process did not get the lock: %v", err)
			}
			must.NoError(t, jobs.Mkdir("1.x"))
			defer jobs.Rmdir("1.x")
			if err := as(nobody, "cat", jobs.Path("1.x/"+lockFile)).Run(); err != nil {
				t.Errorf("another user cannot read a job's processes: %v", err)
			}
		})
	}
}

// TestKillFrozen: a frozen job can be killed, no matter who froze it, with which freezer and how
// far down. It takes the best of five tries, because other programs may use the cpus.
func TestKillFrozen(t *testing.T) {
	for _, mode := range []Mode{0, ModeV1, ModeV2} {
		for _, below := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v below=%v", mode, below), func(t *testing.T) {
				tree := needKernel(t, mode).tree(t)
				for range 5 {
					took := killFrozen(t, newJob(t, tree, testJob, tree.someLimits()), below)
					if took <= killRound/2 {
						return
					}
					t.Logf("it took %v", took)
				}
				t.Errorf("each took more than %v", killRound/2)
			})
		}
	}
}

// killFrozen freezes a job, or a cgroup below it, and returns how long its kill takes.
func killFrozen(t *testing.T, j *Job, below bool) (took time.Duration) {
	t.Helper()
	a := startActor(t, j.Join())
	for _, d := range j.dirs {
		file, value := freezerFile, state(true)
		if d.h.v2 {
			file, value = freezeFile, "1"
		} else if !d.h.has("freezer") {
			continue
		}
		if below {
			sub, err := d.Sub("below")
			if err == nil {
				err = errors.Join(sub.Mkdir("."), sub.Write("cgroup.procs", fmt.Sprint(a.pid())))
			}
			must.NoError(t, err)
			d.FS = sub
		}
		must.NoError(t, d.Write(file, value))
	}
	start := time.Now()
	_, err := j.Kill(soon(t))
	took = time.Since(start)
	must.NoError(t, err)
	a.gone(t)
	must.NoError(t, j.Remove(soon(t)))
	return took
}
