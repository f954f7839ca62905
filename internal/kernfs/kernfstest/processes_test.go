package kernfstest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/must"
)

func TestStuckProcessIsNotFrozen(t *testing.T) {
	k := NewHybrid()
	mustMkdir(t, k, "unified/job", "freezer/job")
	cgroup := k.Roots().Cgroup
	pid := k.Spawn("unified/job", "freezer/job")
	k.Stick(pid)
	mustWrite(t, k, "freezer/job/freezer.state", "FROZEN")
	if got := mustRead(t, cgroup, "freezer/job/freezer.state"); got != "FREEZING\n" {
		t.Errorf("stuck: %q", got)
	}
	mustWrite(t, k, "freezer/job/freezer.state", "THAWED")
	mustWrite(t, k, "unified/job/cgroup.freeze", "1")
	if got := mustRead(t, cgroup, "unified/job/cgroup.events"); got != "populated 1\nfrozen 0\n" {
		t.Errorf("stuck: %q", got)
	}
	mustWrite(t, k, "unified/job/cgroup.kill", "1")
	if err := cgroup.Rmdir("unified/job"); !errors.Is(err, unix.EBUSY) {
		t.Errorf("rmdir: got %v, want EBUSY", err)
	}
	k.Unstick(pid)
	if len(k.Pids()) != 0 {
		t.Errorf("left: %v", k.Pids())
	}
	if err := cgroup.Rmdir("unified/job"); err != nil {
		t.Error(err)
	}
	if err := k.Signal(pid, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("signal: got %v, want ESRCH", err)
	}
}

func TestSwapTakesAnonymousPages(t *testing.T) {
	machine := DefaultMachine
	machine.Swap = 1 << 30
	t.Run("v1", func(t *testing.T) {
		k := NewV1(On(machine))
		mustMkdir(t, k, "memory/job")
		mustWrite(t, k, "memory/job/memory.limit_in_bytes", "32M")
		mustWrite(t, k, "memory/job/memory.memsw.limit_in_bytes", "64M")
		pid := k.Spawn("memory/job")
		if killed := k.Charge(pid, Memory{Anon: 48 << 20}); killed != nil {
			t.Fatalf("killed %v with room in the swap", killed)
		}
		cgroup := k.Roots().Cgroup
		if got := mustRead(t, cgroup, "memory/job/memory.memsw.usage_in_bytes"); got != fmt.Sprintln(48<<20) {
			t.Errorf("memory+swap: %s", got)
		}
		if killed := k.Charge(pid, Memory{Anon: 32 << 20}); len(killed) != 1 {
			t.Errorf("killed %v above memory+swap", killed)
		}
		if got := mustRead(t, cgroup, "memory/job/memory.memsw.max_usage_in_bytes"); got != fmt.Sprintln(64<<20) {
			t.Errorf("greatest memory+swap: %s", got)
		}
	})
	t.Run("v2", func(t *testing.T) {
		k := NewV2(On(machine))
		mustWrite(t, k, "cgroup.subtree_control", "+memory")
		mustMkdir(t, k, "job")
		mustWrite(t, k, "job/memory.max", "32M")
		mustWrite(t, k, "job/memory.swap.max", "8M")
		pid := k.Spawn("job")
		if killed := k.Charge(pid, Memory{Anon: 40 << 20}); killed != nil {
			t.Fatalf("killed %v with room in the swap", killed)
		}
		cgroup := k.Roots().Cgroup
		if got := mustRead(t, cgroup, "job/memory.swap.current"); got != fmt.Sprintln(8<<20) {
			t.Errorf("swap: %s", got)
		}
		if killed := k.Charge(pid, Memory{Anon: 4096}); len(killed) != 1 {
			t.Errorf("killed %v above both", killed)
		}
	})
}

func TestSpawnPanics(t *testing.T) {
	k := NewV1()
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "memory/none") {
			t.Errorf("got %v, want a panic that names the cgroup", r)
		}
		k.Spawn() // the kernel is not locked
	}()
	k.Spawn("memory/none")
}

// TestWaitInBubble: a wait in the fake is durably blocked, so that synctest moves the clock on.
func TestWaitInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := NewV2()
		mustMkdir(t, k, "job")
		pid := k.Spawn("job")
		events, err := k.Roots().Cgroup.Watch("job/cgroup.events")
		must.NoError(t, err)
		if _, err := events.Read(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Hour, func() { k.Exit(pid) })
		must.NoError(t, events.Wait(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := events.Read(); err != nil {
			t.Fatal(err)
		}
		if err := events.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want the deadline", err)
		}
	})
}
