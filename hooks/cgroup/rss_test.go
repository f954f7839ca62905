package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
)

func byRSS(c *config.File) { c.Memory.Enforce = "rss" }

// awaitDeath returns when the job has no processes left.
func (n *node) awaitDeath(id string) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := n.cgroup(id).Wait(ctx); err != nil {
		n.t.Fatalf("the job lives: %v", err)
	}
}

// staysAlive gives the follower time to kill by mistake.
func (n *node) staysAlive(id string) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 1300*time.Millisecond)
	defer cancel()
	if err := n.cgroup(id).Wait(ctx); err == nil {
		n.t.Fatalf("the job is dead: %+v", n.do(hostapi.EventEpilogue, id))
	}
}

// wantExcess checks the reason in a job's epilogue, and ends the job.
func (n *node) wantExcess(id, text string) {
	n.t.Helper()
	out := n.do(hostapi.EventEpilogue, id)
	if !slices.Equal(out.JobStderr, []string{text}) || !slices.Contains(out.Notes, text) ||
		"=>> PBS: "+out.Diag != text {
		n.t.Errorf("stderr %q, notes %q, diag %q; want %q", out.JobStderr, out.Notes, out.Diag, text)
	}
	n.do(hostapi.EventEnd, id)
	n.want()
}

// Page cache does not count as the job's memory, but what the job holds itself does.
func TestRSSOnFakes(t *testing.T) {
	onFakes(t, byRSS, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=1", "mem=100mb"))
		pid := n.launch("1.srv")
		k.Charge(pid, kernfstest.Memory{File: 2 << 30, Anon: 99 * mib})
		n.staysAlive("1.srv")
		k.Charge(pid, kernfstest.Memory{Anon: 25 * mib, Shmem: 26 * mib})
		n.awaitDeath("1.srv")
		const text = "=>> PBS: job killed: mem 153600kb exceeded limit 102400kb"
		if u := n.report("1.srv"); !slices.Equal(u.JobStderr, []string{text}) || "=>> PBS: "+u.Diag != text {
			t.Errorf("periodic: %+v", u)
		}
		n.wantExcess("1.srv", text)
	})
}

// A suspended job over a bound does not run again for its grace period.
func TestSuspendedJobHasNoGrace(t *testing.T) {
	n, _ := fakeNode(t, kernfstest.NewV2, func(c *config.File) { c.Cgroup.KillGrace = config.Duration(time.Minute) })
	n.begin("1.srv")
	n.launch("1.srv")
	f := n.follower(n.cgroup("1.srv"), nil)
	must.Equal(t, "grace", time.Minute, f.grace())
	n.do(hostapi.EventPostsuspend, "1.srv")
	must.Equal(t, "grace while suspended", time.Duration(0), f.grace())
	n.do(hostapi.EventPreresume, "1.srv")
	must.Equal(t, "grace after it was resumed", time.Minute, f.grace())
}

// A restarted hook continues sampling.
func TestRSSAfterRestart(t *testing.T) {
	onFakes(t, byRSS, func(t *testing.T, n *node, k *kernfstest.Kernel) {
		n.begin("1.srv", asks("ncpus=1", "mem=100mb"))
		pid := n.launch("1.srv")
		n.restart()
		k.Charge(pid, kernfstest.Memory{Anon: 150 * mib})
		n.awaitDeath("1.srv")
		n.restart() // between the kill and the epilogue
		n.wantExcess("1.srv", "=>> PBS: job killed: mem 153600kb exceeded limit 102400kb")
	})
}

func TestBoundsOfResidentMemoryFollowEnforce(t *testing.T) {
	mem := int64(gib)
	granted := assignment{limits: cgroup.Limits{Mem: &mem}, ask: ask{pmem: pbs.Size(gib)}}
	all := granted
	all.allMem = true
	for _, tt := range []struct {
		enforce string
		granted assignment
		mem     int64 // 0: none
	}{
		{"cgroup", granted, 0},
		{"rss", granted, gib},
		{"both", granted, gib},
		{"rss", all, 0},
		{"rss", assignment{ask: ask{pmem: pbs.Size(gib)}}, 0},
	} {
		p := defaultPolicy(t)
		p.Memory.Enforce, p.Memory.Default = tt.enforce, 5<<20
		if got, want := p.boundsOf(&tt.granted), (memAmounts{mem: tt.mem, pmem: gib}); got != want {
			t.Errorf("%s: %+v, want %+v", tt.enforce, got, want)
		}
	}
}

func defaultPolicy(t *testing.T) *policy {
	t.Helper()
	p, err := newPolicy(nil)
	must.NoError(t, err)
	return p
}

// A job that reads files much larger than its mem survives. A job that uses more than its mem is
// killed, with SIGTERM first if it has a kill_delay.
func TestKernelRSS(t *testing.T) {
	n := realNode(t, byRSS)
	file := filepath.Join(t.TempDir(), "file")
	f, err := os.Create(file)
	must.NoError(t, err)
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, 300*mib); err != nil {
		kernfstest.Skip(t, "allocate a file: %v", err)
	}
	n.begin("1.srv", asks("ncpus=1", "mem=100mb"))
	delay := 5
	n.jobs["1.srv"].KillDelay = &delay // PBS does not send it with begin
	enter := n.launches("1.srv")
	a := startActor(t, enter, "hold", fmt.Sprint(30*mib), file)
	if err := errors.Join(os.Remove(file), f.Close()); err != nil && !errors.Is(err, fs.ErrClosed) {
		t.Fatal(err)
	}
	n.staysAlive("1.srv")
	b := startActor(t, enter, "keep", fmt.Sprint(110*mib))
	b.stdin.Close()
	start := time.Now()
	n.awaitDeath("1.srv")
	t.Logf("killed within %v", time.Since(start))
	for _, x := range []actor{a, b} {
		if exit, err := x.child.Wait(t.Context()); err != nil || exit.Status.Signal() != unix.SIGTERM {
			t.Errorf("ended by %v, %v; want SIGTERM", exit.Status.Signal(), err)
		}
	}
	out := n.do(hostapi.EventEpilogue, "1.srv")
	if len(out.JobStderr) != 1 || !strings.HasPrefix(out.JobStderr[0], "=>> PBS: job killed: mem ") ||
		!strings.HasSuffix(out.JobStderr[0], "kb exceeded limit 102400kb") {
		t.Errorf("stderr %q", out.JobStderr)
	}
	if mem := *out.Usage.MemBytes; mem < 100*mib || mem > 250*mib {
		t.Errorf("mem %d MiB", mem/mib)
	}
}

// A job that is near a bound is sampled ten times a second, and any other once.
func TestPauseIsShortNearABound(t *testing.T) {
	for _, tt := range []struct {
		used, bound int64
		want        time.Duration
	}{{0, 0, time.Second}, {gib, 0, time.Second}, {80 * mib, 100 * mib, time.Second}, {81 * mib, 100 * mib, nearPause},
		{gib, 100 * mib, nearPause}} {
		must.Equal(t, fmt.Sprintf("pause at %d of %d", tt.used, tt.bound), tt.want, pauseAt(tt.used, tt.bound))
	}
}

// A job that ignores SIGTERM lives until its grace period is over.
func TestKernelRSSGrace(t *testing.T) {
	n := realNode(t, func(c *config.File) {
		byRSS(c)
		c.Cgroup.KillGrace = config.Duration(400 * time.Millisecond)
	})
	n.begin("1.srv", asks("ncpus=1", "mem=40mb"))
	a := startActor(t, n.launches("1.srv"), "ignore")
	b := startActor(t, n.launches("1.srv"), "keep", fmt.Sprint(45*mib))
	start := time.Now()
	b.stdin.Close()
	n.awaitDeath("1.srv")
	if took := time.Since(start); took < 400*time.Millisecond {
		t.Errorf("it took %v", took)
	}
	if exit, err := a.child.Wait(t.Context()); err != nil || exit.Status.Signal() != unix.SIGKILL {
		t.Errorf("ended by %v, %v; want SIGKILL", exit.Status.Signal(), err)
	}
}
