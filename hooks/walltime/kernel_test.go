package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/proc/proctest"
)

// everywhere runs a test on all of this machine's cgroups, and on the v1 ones alone if there are
// any.
func everywhere(t *testing.T, test func(t *testing.T, mode cgroup.Mode)) {
	t.Run("all", func(t *testing.T) { test(t, 0) })
	t.Run("v1", func(t *testing.T) { test(t, cgroup.ModeV1) })
}

// SIGTERM reaches every process of a job, including stopped ones and those that have left their
// session and lost their parent.
func TestTermReachesAll(t *testing.T) {
	everywhere(t, func(t *testing.T, mode cgroup.Mode) {
		n := newNode(t, mode, nil)
		j := n.begin("1.srv", hostapi.Resources{"walltime": "3"})
		file := filepath.Join(t.TempDir(), "signals")
		_, pids := n.start(j, 5, "shell", file, "sleep", "stop", "daemon|sleep", "daemon|stop")
		must.Eventually(t, "two are stopped", func() bool {
			return len(slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return !n.stopped(pid) })) == 2
		})
		n.at(3*time.Second-1, "1.srv")
		u := n.at(3*time.Second, "1.srv")["1.srv"]
		shell := slices.IndexFunc(pids, func(pid int) bool {
			p, err := proc.Read(n.roots.Proc, pid)
			return err == nil && p.PPID == unix.Getpid()
		})
		if shell < 0 {
			t.Fatalf("the leading process, which catches SIGTERM, is gone")
		}
		leader := pids[shell]
		must.Eventually(t, "only the leading process is left", func() bool {
			return n.lives(leader) &&
				!slices.ContainsFunc(pids, func(pid int) bool { return pid != leader && n.lives(pid) })
		})
		must.Eventually(t, "it has noted SIGTERM", func() bool { return content(t, file) == "SIGTERM" })
		text := "walltime 3 exceeded limit 3"
		want := &hostapi.JobUpdate{CallAtElapsed: 33 * time.Second, JobStderr: []string{"=>> PBS: job killed: " + text},
			Diag:  "job killed: " + text,
			Notes: []string{"ended by hookhost: " + text + ": SIGTERM"}, State: u.State, WalltimeLimit: u.WalltimeLimit}
		if diff := cmp.Diff(want, u); diff != "" || *u.WalltimeLimit != 3*time.Second {
			t.Errorf("limit %v, -want +got:\n%s", *u.WalltimeLimit, diff)
		}
	})
}

// A process that ignores SIGTERM gets SIGKILL after the job's own grace period. Nothing more
// happens to a job that is gone.
func TestKillAfterGrace(t *testing.T) {
	everywhere(t, func(t *testing.T, mode cgroup.Mode) {
		n := newNode(t, mode, nil)
		j := n.begin("1.srv", hostapi.Resources{"walltime": "3"})
		two := 2
		n.jobs["1.srv"].KillDelay = &two
		child, _ := n.start(j, 2, "shell", filepath.Join(t.TempDir(), "signals"), "daemon|ignore")
		must.Eventually(t, "who started the daemon has ended",
			func() bool { pids, err := j.Processes(); return err == nil && len(pids) == 2 })
		n.at(3*time.Second, "1.srv")
		if n.due["1.srv"] != 5*time.Second {
			t.Errorf("due at %v", n.due["1.srv"])
		}
		n.at(4*time.Second, "1.srv") // a report on the live job
		if pids, err := j.Processes(); err != nil || len(pids) != 2 {
			t.Errorf("within the grace: processes %v, %v", pids, err)
		}
		u := n.at(5*time.Second, "1.srv")["1.srv"]
		want := []string{"ended by hookhost: walltime 3 exceeded limit 3: SIGKILL after a grace of 2s"}
		if !slices.Equal(u.Notes, want) || u.JobStderr != nil || u.Diag != "" {
			t.Errorf("notes %q, stderr %q, diag %q", u.Notes, u.JobStderr, u.Diag)
		}
		exit, err := child.Wait(t.Context())
		if err != nil || exit.Status.Signal() != unix.SIGKILL {
			t.Errorf("ended by %v, %v", exit.Status.Signal(), err)
		}
		must.Eventually(t, "nothing is left",
			func() bool { pids, err := j.Processes(); return err == nil && len(pids) == 0 })
		if n.due["1.srv"] != 6*time.Second {
			t.Errorf("due at %v", n.due["1.srv"])
		}
		if u := n.at(6*time.Second, "1.srv")["1.srv"]; u.Notes != nil || u.CallAtElapsed != 66*time.Second {
			t.Errorf("afterwards: %+v", u)
		}
	})
}

// A job with hardly any cpu time gets that of one cpu, to die of SIGTERM and of pbs_mom's signals.
func TestJobThatIsEndedHasTheCPUTimeToDie(t *testing.T) {
	everywhere(t, func(t *testing.T, mode cgroup.Mode) {
		n := newNode(t, mode, nil)
		if !n.tree.Has("cpu") {
			kernfstest.Elsewhere(t, "no cpu controller")
		}
		little := cgroup.Limits{CPUShares: 2, Quota: 20 * time.Millisecond}
		for id, end := range map[string]time.Duration{"1.srv": 3 * time.Second, "2.srv": 303 * time.Second} {
			j := n.begin(id, hostapi.Resources{"walltime": "3"})
			if end > 3*time.Second {
				n.jobs[id].State, n.jobs[id].MotherSuperior = nil, true
				marked := &hostapi.Request{Event: hostapi.EventBegin, Job: n.jobs[id]} // without a MoM process
				must.NoError(t, j.SetJobMark(cgroup.JobMark{Begin: marked}))
			}
			must.NoError(t, j.Apply(little, nil))
			n.start(j, 1, "shell", filepath.Join(t.TempDir(), "signals"))
			n.at(2*time.Second, id)
			if l, err := j.Limits("cpu"); err != nil || l.CPUShares > 10 || l.Quota != little.Quota {
				t.Errorf("job %s before its end: %+v, %v; want %+v", id, l, err, little)
			}
			n.at(3*time.Second, id)
			if l, err := j.Limits("cpu"); err != nil || l.CPUShares < 990 || l.Quota != 0 {
				t.Errorf("job %s at its end: %+v, %v; want the share of a cpu and no quota", id, l, err)
			}
			if s, _ := n.stateOf(n.jobs[id]); s.Limits.End != end {
				t.Errorf("job %s: hookhost ends it at %v; want %v", id, s.Limits.End, end)
			}
		}
	})
}

// A job that forks as fast as it can is ended by SIGTERM, and is not left frozen.
func TestTermInAStorm(t *testing.T) {
	n := newNode(t, 0, nil)
	if !n.tree.Has("freeze") {
		t.Fatal("no kernel that this runs on is without a freezer")
	}
	j := n.begin("1.srv", hostapi.Resources{"walltime": "3"})
	n.start(j, 1, "storm")
	n.start(j, 1, "storm")
	n.at(3*time.Second, "1.srv")
	emptied(t, j)
	if frozen, err := j.Frozen(); err != nil || frozen {
		t.Errorf("frozen %v, %v", frozen, err)
	}
}

// A warning reaches every process, or with B: only the leading shell.
func TestWarningReachesEveryProcessOrTheShellAlone(t *testing.T) {
	everywhere(t, func(t *testing.T, mode cgroup.Mode) {
		n := newNode(t, mode, nil)
		dir := t.TempDir()
		shell, child := filepath.Join(dir, "shell"), filepath.Join(dir, "child")
		j := n.begin("1.srv", hostapi.Resources{"walltime": "600",
			"walltime_signal": "B:USR1@300+USR1@200+B:INT@100+@50"})
		leader, _ := n.start(j, 2, "shell", shell, "note|"+child)
		n.jobs["1.srv"].SessionID = leader.PID
		noted := func(atShell, atChild string) {
			t.Helper()
			must.Eventually(t, atShell+"; "+atChild,
				func() bool { return content(t, shell) == atShell && content(t, child) == atChild })
		}
		line := func(u map[string]*hostapi.JobUpdate, left string, notes ...string) {
			t.Helper()
			if got := u["1.srv"]; !slices.Equal(got.JobStderr, []string{"=>> PBS: walltime: " + left +
				" left of 00:10:00"}) || !slices.Equal(got.Notes, notes) || got.Diag != "" {
				t.Errorf("%+v", got)
			}
		}
		line(n.at(300*time.Second, "1.srv"), "00:05:00", "warning B:USR1@300: SIGUSR1 was sent to the leading shell")
		noted("SIGUSR1", "")
		line(n.at(400*time.Second, "1.srv"), "00:03:20", "warning USR1@200: SIGUSR1 was sent to every process")
		noted("SIGUSR1 SIGUSR1", "SIGUSR1")
		line(n.at(500*time.Second, "1.srv"), "00:01:40", "warning B:INT@100: SIGINT was sent to the leading shell")
		noted("SIGUSR1 SIGUSR1 SIGINT", "SIGUSR1")
		line(n.at(550*time.Second, "1.srv"), "00:00:50")
		noted("SIGUSR1 SIGUSR1 SIGINT", "SIGUSR1")
	})
}

// In an interactive job, a process of MoM outside the job leads the session. The shell is its
// child.
func TestWarningReachesTheShellOfAnInteractiveJob(t *testing.T) {
	n := newNode(t, 0, nil)
	dir := t.TempDir()
	reader, shell, other := filepath.Join(dir, "reader"), filepath.Join(dir, "shell"), filepath.Join(dir, "other")
	j := n.begin("1.srv", hostapi.Resources{"walltime": "600", "walltime_signal": "B:USR1@300"})
	n.start(j, 1, "note", other)
	mom := proctest.Start(t, &exec.Cmd{
		Args:        []string{"actor", actorArg, "shell", reader, "note|" + shell},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}, nil)
	for range 2 {
		line, err := mom.Out.ReadString('\n')
		must.NoError(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		must.NoError(t, err)
		if pid != mom.PID {
			n.enters(j)(pid)
		}
	}
	n.jobs["1.srv"].SessionID = mom.PID
	u := n.at(300*time.Second, "1.srv")["1.srv"]
	if want := []string{"warning B:USR1@300: SIGUSR1 was sent to the leading shell"}; !slices.Equal(u.Notes, want) {
		t.Errorf("notes %q", u.Notes)
	}
	must.Eventually(t, "the shell has the signal", func() bool { return content(t, shell) == "SIGUSR1" })
	must.Equal(t, "what others got", "", content(t, reader)+content(t, other))
}

// A leading shell that cannot be found, or that is not in the job's cgroup, gets no signal, and a
// note says so.
func TestNoShell(t *testing.T) {
	n := newNode(t, 0, nil)
	j := n.begin("1.srv", hostapi.Resources{"walltime": "600", "walltime_signal": "B:USR1@300"})
	other := n.begin("2.srv", nil)
	file := filepath.Join(t.TempDir(), "signals")
	stranger, _ := n.start(other, 1, "note", file)
	n.start(j, 1, "daemon", "sleep")
	n.jobs["1.srv"].SessionID = stranger.PID
	must.Eventually(t, "the leading process has ended",
		func() bool { pids, err := j.Processes(); return err == nil && len(pids) == 1 })
	u := n.at(300*time.Second, "1.srv")["1.srv"]
	want := []string{"warning B:USR1@300: SIGUSR1 was not sent, as the job's leading shell was not found"}
	if !slices.Equal(u.Notes, want) {
		t.Errorf("notes %q", u.Notes)
	}
	if got := content(t, file); got != "" {
		t.Errorf("another job's process got %s", got)
	}
}

// A suspended job is left alone, even if the host calls for it after its time has run out. A job
// without a cgroup is not an error.
func TestLeftAlone(t *testing.T) {
	n := newNode(t, 0, nil)
	j := n.begin("1.srv", hostapi.Resources{"walltime": "3"})
	_, pids := n.start(j, 1, "sleep")
	n.jobs["1.srv"].Phase = hostapi.PhaseSuspended
	if u := n.at(3*time.Second, "1.srv")["1.srv"]; u.JobStderr != nil || u.CallAtElapsed != 4*time.Second ||
		!n.lives(pids[0]) {
		t.Errorf("suspended: %+v", u)
	}
	n.jobs["1.srv"].Phase = hostapi.PhaseRunning
	n.at(4*time.Second, "1.srv")
	must.Eventually(t, "it has ended", func() bool { return !n.lives(pids[0]) })

	empty := n.begin("2.srv", hostapi.Resources{"walltime": "3", "cput": "3"})
	if u := n.at(3*time.Second, "2.srv")["2.srv"]; u.JobStderr != nil || u.CallAtElapsed != 63*time.Second {
		t.Errorf("without processes: %+v", u)
	}
	must.NoError(t, empty.Remove(t.Context()))
	if u := n.at(63*time.Second, "2.srv")["2.srv"]; u.JobStderr != nil || u.Notes != nil ||
		u.CallAtElapsed != 123*time.Second {
		t.Errorf("without a cgroup: %+v", u)
	}
}

// A job is ended when the kernel counts as much cpu time as the job may use, and not before.
func TestCPUTLimitEndsAJobByTheKernelsCount(t *testing.T) {
	everywhere(t, func(t *testing.T, mode cgroup.Mode) {
		n := newNode(t, mode, nil)
		j := n.begin("1.srv", hostapi.Resources{"cput": "1"})
		_, pids := n.start(j, 2, "shell", filepath.Join(t.TempDir(), "signals"), "daemon|burn")
		elapsed := time.Duration(0)
		for start := time.Now(); ; {
			if elapsed = n.due["1.srv"]; elapsed == 0 {
				t.Fatal("it is not looked at again")
			}
			before, err := j.CPUTime()
			must.NoError(t, err)
			u := n.at(elapsed, "1.srv")["1.srv"]
			after, err := j.CPUTime()
			must.NoError(t, err)
			if ended := u.Diag != ""; ended != strings.HasPrefix(u.Diag, "job killed: cput 1 exceeded limit 1") &&
				after < 2*time.Second || ended && after < time.Second || !ended && before >= time.Second {
				t.Errorf("having used %v to %v: %+v", before, after, u)
			}
			if u.Diag != "" {
				break
			}
			if time.Since(start) > time.Minute {
				t.Fatalf("after a minute %v is used", after)
			}
			time.Sleep(n.due["1.srv"] - elapsed)
		}
		must.Eventually(t, "one that burns has ended", func() bool {
			return slices.ContainsFunc(pids, func(pid int) bool { return !n.lives(pid) })
		})
	})
}

// dumpingProc is a /proc in which one process dumps core. No test can make the kernel do that for a
// given time.
type dumpingProc struct {
	*kernfs.FS
	pid  int
	file string
	over atomic.Bool
}

func (p *dumpingProc) OpenFile(name string, flag int) (kernfs.File, error) {
	if name == fmt.Sprintf("%d/status", p.pid) && !p.over.Load() {
		return os.Open(p.file)
	}
	return p.FS.OpenFile(name, flag)
}

func (p *dumpingProc) Mkdir(name string, _ fs.FileMode) error { return p.FS.Mkdir(name) }

// A process that dumps core is spared until it has finished or its grace period is over. All others
// are killed.
func TestCoreDump(t *testing.T) {
	const s = time.Second
	for _, stops := range []bool{true, false} {
		t.Run(fmt.Sprintf("stops in time %v", stops), func(t *testing.T) {
			n := newNode(t, 0, func(w *config.Walltime) { w.Grace, w.CoreDumpGrace = 0, 5*seconds })
			j := n.begin("1.srv", hostapi.Resources{"walltime": "3"})
			file := filepath.Join(t.TempDir(), "status")
			leader, pids := n.start(j, 3, "shell", filepath.Join(t.TempDir(), "signals"), "ignore", "daemon|ignore")
			must.Eventually(t, "who started the daemon has ended",
				func() bool { left, err := j.Processes(); return err == nil && len(left) == 3 })
			n.jobs["1.srv"].SessionID = leader.PID
			dumps := pids[slices.IndexFunc(pids, func(pid int) bool { return pid != leader.PID })]
			spared := []int{leader.PID, dumps} // if the leading program died, the job would end
			slices.Sort(spared)
			status, err := n.roots.Proc.ReadFile(fmt.Sprintf("%d/status", dumps))
			must.NoError(t, err)
			if !bytes.Contains(status, []byte("\nCoreDumping:\t0\n")) {
				t.Fatalf("status of Linux 4.15 and later: %s", status)
			}
			dumping := bytes.Replace(status, []byte("CoreDumping:\t0"), []byte("CoreDumping:\t1"), 1)
			must.NoError(t, os.WriteFile(file, dumping, 0o644))
			overlay := &dumpingProc{FS: n.roots.Proc, pid: dumps, file: file}
			n.roots.Proc = kernfs.New(overlay, "/proc")
			n.at(3*s, "1.srv")
			u := n.at(3*s+1, "1.srv")["1.srv"]
			want := []string{"SIGKILL waits 5s at most for 1 of its processes to write a core dump"}
			if !slices.Equal(u.Notes, want) || u.CallAtElapsed != 4*s+1 {
				t.Errorf("%+v", u)
			}
			must.Eventually(t, "the others are gone",
				func() bool { left, err := j.Processes(); return err == nil && slices.Equal(left, spared) })
			last := 8*s + 1
			if stops {
				last = 6 * s
				overlay.over.Store(true)
			} else {
				n.at(8*s, "1.srv")
				if !n.lives(dumps) || n.due["1.srv"] != last {
					t.Errorf("within its grace it is gone, or the next look is at %v", n.due["1.srv"])
				}
			}
			u = n.at(last, "1.srv")["1.srv"]
			want = []string{"ended by hookhost: walltime 3 exceeded limit 3: SIGKILL after a grace of 0s"}
			if !slices.Equal(u.Notes, want) {
				t.Errorf("notes %q", u.Notes)
			}
			must.Eventually(t, "it is gone", func() bool { return !n.lives(dumps) })
		})
	}
}

// An unkillable job is reported as long as it is there.
func TestUnkillableJobIsReportedWhileItIsThere(t *testing.T) {
	n := newNode(t, 0, nil)
	j := n.begin("1.srv", hostapi.Resources{"walltime": "3"})
	_, pids := n.start(j, 1, "burn")
	s, err := decodeState(n.jobs["1.srv"].State)
	must.NoError(t, err)
	s.Stage, s.Next = unkillable, 60*time.Second
	n.jobs["1.srv"].State = s.encode()
	req := &hostapi.Request{Event: hostapi.EventPeriodic, JobList: n.jobs}
	if _, err := n.ExechostPeriodic(t.Context(), req); err != nil {
		t.Errorf("of a job that runs, or waits for a cpu: %v", err)
	}
	must.NoError(t, unix.Kill(pids[0], unix.SIGSTOP))
	must.Eventually(t, "it stops", func() bool { return !proc.Runnable(n.roots.Proc, pids) })
	out, err := n.ExechostPeriodic(t.Context(), req)
	if hostapi.KindOf(err) != hostapi.KindNode || !strings.Contains(err.Error(),
		`job 1.srv: unkillable: left after SIGKILL: 1 process: `) || !strings.Contains(err.Error(), `("exe") `) {
		t.Errorf("%v", err)
	}
	if u := out.Jobs["1.srv"]; u == nil || u.CallAtElapsed != 60*time.Second || u.State != nil {
		t.Errorf("%+v", u)
	}
	if !n.lives(pids[0]) {
		t.Error("a periodic of the host has killed it")
	}
	if _, err := j.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.ExechostPeriodic(t.Context(), req); err != nil {
		t.Error(err)
	}
}
