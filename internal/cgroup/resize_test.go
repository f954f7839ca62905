package cgroup

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/proc"
)

// TestShrinkToSwap: what no longer fits into memory goes to swap, if there is swap and the job may
// use it.
func TestShrinkToSwap(t *testing.T) {
	const m = 1 << 20
	for _, boot := range []func(...kernfstest.Option) *kernfstest.Kernel{kernfstest.NewV1, kernfstest.NewV2} {
		for _, tt := range []struct {
			name         string
			swap         int64 // the node's
			mem, memSwap int64 // the limits to set
			refused      bool
		}{
			{"there is swap", 1 << 30, 50 * m, 200 * m, false},
			{"no swap", 0, 50 * m, 200 * m, true},
			{"too little swap", 10 * m, 50 * m, 200 * m, true},
			{"the job may not have it", 1 << 30, 50 * m, 60 * m, true},
			{"just enough", 1 << 30, 50 * m, 100 * m, false},
		} {
			t.Run(tt.name, func(t *testing.T) {
				machine := kernfstest.DefaultMachine
				machine.Swap = tt.swap
				k := boot(kernfstest.On(machine))
				tree := fakeTree(t, k)
				j := newJob(t, tree, testJob, Limits{Mem: size(200 * m), MemSwap: size(400 * m)})
				pid := spawnFake(k, j.Join())
				k.Charge(pid, kernfstest.Memory{Anon: 80 * m, File: 20 * m})
				err := j.Apply(Limits{Mem: &tt.mem, MemSwap: &tt.memSwap}, nil)
				want := [2]int64{tt.mem, tt.memSwap}
				if tt.refused {
					wantError(t, err, ErrInUse)
					want = [2]int64{200 * m, 400 * m}
				} else if err != nil {
					t.Error(err)
				}
				if got, err := j.Limits(); err != nil || *got.Mem != want[0] || *got.MemSwap != want[1] {
					t.Errorf("limits are %d and %d, %v; want %d", *got.Mem, *got.MemSwap, err, want)
				}
				wantNoKill(t, j, fakeProcess{k, pid})
			})
		}
	}
}

// TestShrinkInVain: a job that does not give back memory that it could give back keeps its limits
// and continues.
func TestShrinkInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := kernfstest.NewV2()
		tree := fakeTree(t, k)
		high := size(150 << 20)
		j := newJob(t, tree, testJob, Limits{Mem: size(200 << 20), MemHigh: high})
		pid := spawnFake(k, j.Join())
		k.Charge(pid, kernfstest.Memory{Anon: 20 << 20, File: 100 << 20})
		before, err := j.Limits()
		must.NoError(t, err)
		defer k.Dirty(true)()
		start := time.Now()
		err = j.Apply(Limits{Mem: size(64 << 20), MemHigh: high, Pids: size(10)}, nil)
		wantError(t, err, ErrInUse)
		if took := time.Since(start); took < reclaimTime || took > 2*reclaimTime {
			t.Errorf("it took %v, want about %v", took, reclaimTime)
		}
		after, err := j.Limits()
		if diff := cmp.Diff(before, after, cmpSets); err != nil || diff != "" {
			t.Errorf("%v (-before +after):\n%s", err, diff)
		}
		wantNoKill(t, j, fakeProcess{k, pid})
	})
}

// TestApplyUndoEach: if any write fails, nothing has changed.
func TestApplyUndoEach(t *testing.T) {
	on, off := true, false
	full := Limits{Mem: size(200 << 20), MemSwap: size(300 << 20), MemHigh: size(150 << 20), CPUShares: 512,
		OOMGroup: &on,
		Quota:    50 * time.Millisecond, Period: 100 * time.Millisecond, Pids: size(100),
		Hugetlb: map[int64]int64{2 << 20: 8 << 20},
		IO:      []IOLimit{{Major: 8, WriteBytes: size(1000)}}}
	other := Limits{Mem: size(300 << 20), MemSwap: size(350 << 20), MemHigh: size(20 << 20), CPUShares: 2048,
		OOMGroup: &off,
		Quota:    20 * time.Millisecond, Period: 50 * time.Millisecond, Pids: size(7),
		Hugetlb: map[int64]int64{2 << 20: 4 << 20},
		IO:      []IOLimit{{Major: 8, ReadOps: size(1000)}}}
	for _, swapped := range []bool{false, true} {
		from, to := full, other
		if swapped {
			from, to = other, full
		}
		k := kernfstest.NewV2()
		tree := fakeTree(t, k)
		from.CPUs, to.CPUs = mustSet(t, "0-1"), mustSet(t, "1-2")
		from.Mems, to.Mems = mustSet(t, "0"), mustSet(t, "0-1")
		j := newJob(t, tree, testJob, from)
		k.Charge(spawnFake(k, j.Join()), kernfstest.Memory{Anon: 2 << 20})
		before, err := j.Limits()
		must.NoError(t, err)
		plan := j.plan(&before, to)
		for i := range plan {
			heal := k.FailNth("write", testJob+"/"+plan[i].File, unix.EIO, nth(plan[:i], plan[i].File))
			if err := j.Apply(to, nil); err == nil {
				t.Errorf("%s: no error", plan[i].File)
			}
			heal()
			after, err := j.Limits()
			if diff := cmp.Diff(before, after, cmpSets); err != nil || diff != "" {
				t.Fatalf("%s fails: %v (-before +after):\n%s", plan[i].File, err, diff)
			}
		}
		if err := j.Apply(to, nil); err != nil {
			t.Error(err)
		}
	}
}

// TestApplyHeldMap: if a memory map is held, NUMA nodes do not change, and neither do other limits.
// Memory has been given back by then, which can take seconds.
func TestApplyHeldMap(t *testing.T) {
	for _, boot := range []func(...kernfstest.Option) *kernfstest.Kernel{kernfstest.NewV1, kernfstest.NewV2} {
		tree := fakeTree(t, boot())
		from := tree.someLimits()
		from.Mem = size(200 << 20)
		j := newJob(t, tree, testJob, from)
		before, err := j.Limits()
		must.NoError(t, err)
		held := func() error { return proc.ErrHangs }
		to := before
		to.Mem = size(300 << 20)
		must.NoError(t, j.Apply(to, held))
		must.NoError(t, j.Apply(before, held))
		to.Mem, to.Mems = size(100<<20), mustSet(t, "0-1")
		asked := int64(0)
		wantError(t, j.Apply(to, func() error {
			now, err := j.Limits()
			must.NoError(t, err)
			asked = *now.Mem
			return held()
		}), proc.ErrHangs)
		if memory := tree.with("memory"); !memory.v2 && asked != *to.Mem {
			t.Errorf("asked with a limit of %d bytes, want %d", asked, *to.Mem)
		}
		after, err := j.Limits()
		if diff := cmp.Diff(before, after, cmpSets); err != nil || diff != "" {
			t.Errorf("%v (-before +after):\n%s", err, diff)
		}
		must.NoError(t, j.Apply(to, nil))
	}
}

// nth returns the number of earlier writes to a file.
func nth(plan []write, file string) (n int) {
	for _, w := range plan {
		if w.File == file {
			n++
		}
	}
	return n
}

// TestNoMomentBelow: at no moment of a change does a job have less than under the lower of the two
// sets of limits.
func TestNoMomentBelow(t *testing.T) {
	const m = 1 << 20
	none := Limits{}
	sets := []Limits{none}
	for _, mem := range []int64{100, 200} {
		for _, swap := range []int64{0, 50, 100} {
			for _, high := range []int64{0, 80, 150} {
				l := Limits{Mem: size(mem * m), MemSwap: size((mem + swap) * m)}
				if high > 0 {
					l.MemHigh = size(high * m)
				}
				sets = append(sets, l)
			}
		}
	}
	for _, from := range sets {
		for _, to := range sets {
			now := map[string]*int64{memoryMax: from.Mem, memoryHigh: from.MemHigh, swapMax: swapOf(from)}
			for _, w := range plan(true, controllerNames(), &from, &to) {
				n, err := parseBytes(w.Value)
				must.NoError(t, err)
				now[w.File] = n
				for file, least := range map[string][2]*int64{memoryMax: {from.Mem, to.Mem},
					memoryHigh: {from.MemHigh, to.MemHigh}, swapMax: {swapOf(from), swapOf(to)}} {
					if above(least[0], now[file]) && above(least[1], now[file]) {
						t.Errorf("%s is %d, below both", file, *now[file])
					}
				}
				// The same applies to memory and swap together.
				if both := sum(now[memoryMax], now[swapMax]); above(from.MemSwap, both) && above(to.MemSwap, both) {
					t.Errorf("%v to %v: memory and swap are %d, below both", from, to, *both)
				}
			}
		}
	}
}

func sum(a, b *int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	return size(*a + *b)
}

func swapOf(l Limits) *int64 {
	if l.Mem == nil || l.MemSwap == nil {
		return nil
	}
	return size(*l.MemSwap - *l.Mem)
}

// TestWatchIdle: an idle job is sampled once a second, and nothing is written to its cgroup.
func TestWatchIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := kernfstest.NewV2()
		j := newJob(t, fakeTree(t, k), testJob, Limits{})
		spawnFake(k, j.Join())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- j.Watch(ctx, func(int64) {}, nil) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		k.ResetJournal()
		time.Sleep(time.Hour)
		synctest.Wait()
		if ops := k.Journal(); len(ops) > 0 {
			t.Errorf("%d changes, the first one is %v", len(ops), ops[0])
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
