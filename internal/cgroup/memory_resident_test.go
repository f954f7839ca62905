package cgroup

import (
	"errors"
	"path"
	"slices"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// Caches are left out, one file is enough where all of it is little, and what a sample has shown is
// remembered. Kernel memory is told apart.
func TestResidentMemoryLeavesCachesOut(t *testing.T) {
	for name, boot := range map[string]func(...kernfstest.Option) *kernfstest.Kernel{
		"v1": kernfstest.NewV1, "hybrid": kernfstest.NewHybrid, "v2": kernfstest.NewV2,
	} {
		t.Run(name, func(t *testing.T) {
			w := fake{boot}
			j := newJob(t, w.tree(t), testJob, Limits{})
			k := w.kernel(t)
			p := w.start(t, j.Join()).(fakeProcess)
			k.Charge(p.id, kernfstest.Memory{Anon: 30 << 20, Shmem: 10 << 20, File: 500 << 20, Kernel: 5 << 20,
				Slab: 60 << 20})
			for _, tt := range []struct {
				enough int64
				want   Resident
			}{
				{1 << 30, Resident{Used: 605 << 20}},
				{100 << 20, Resident{Used: 40 << 20, Exact: true, Kernel: 5 << 20, Seen: 40 << 20}},
			} {
				if got, err := j.Resident(tt.enough); err != nil || got != tt.want {
					t.Errorf("%d is enough: %+v, %v; want %+v", tt.enough, got, err, tt.want)
				}
			}
			d, _ := j.with("memory")
			r := &reader{dir: d}
			must.NoError(t, d.storePeak(noPeak().add(r.sample())))
			k.Free(p.id, kernfstest.Memory{Anon: 30 << 20})
			if got, err := j.Resident(0); err != nil || got.Used != 10<<20 || got.Seen != 40<<20 {
				t.Errorf("after a sample: %+v, %v", got, err)
			}
			p.end(t)
			endJob(t, j)
			if _, err := j.Resident(0); !errors.Is(err, ErrNotFound) {
				t.Errorf("no cgroup: %v", err)
			}
		})
	}
}

// Before Linux 5.18 kernel memory is what is left of all memory, less what is not certain.
func TestKernelV2(t *testing.T) {
	const m = 1 << 20
	stat := map[string]uint64{"anon": 10 * m, "file": 100 * m, "shmem": 5 * m, "slab_reclaimable": 40 * m,
		"sock": 300 * m, "kernel": 70 * m}
	if got := kernelV2(stat, 500*m); got != 330*m {
		t.Errorf("%d MiB", got/m)
	}
	delete(stat, "kernel")
	if got, want := kernelV2(stat, 500*m), 350*m-2*setAside; got != want {
		t.Errorf("without its key %d MiB, want %d", got/m, want/m)
	}
	if got := kernelV2(stat, 150*m); got != 0 {
		t.Errorf("of nothing %d", got)
	}
}

// v1 has the kernel count sockets before any process is there, in a job and in a subgroup of it.
func TestSocketsAreCountedOnV1(t *testing.T) {
	w := fake{kernfstest.NewV1}
	tree := w.tree(t)
	k := w.kernel(t)
	j := newJob(t, tree, testJob, Limits{})
	must.NoError(t, j.MakeSubgroup("rank0", []byte("x")))
	var counted []string
	for _, op := range k.Journal() {
		if dir, file := path.Split(op.Path); file == socketLimit {
			counted = append(counted, path.Base(dir))
		}
	}
	if want := []string{testJob, "rank0"}; !slices.Equal(counted, want) {
		t.Errorf("counted in %q, want %q", counted, want)
	}
	endJob(t, j)
}

// An inferred part of a peak is in no sample: nobody is killed for it.
func TestSeenIsNotInferred(t *testing.T) {
	all := int64(100 << 20)
	p := peak{}.add(&memorySample{anon: 1 << 20, peak: new(int64)}).add(&memorySample{anon: 1 << 20, peak: &all})
	if p.used <= 1<<20 || p.seen != 1<<20 {
		t.Errorf("%+v", p)
	}
	if again, err := parsePeak(p.String()); err != nil || again != p {
		t.Errorf("%+v, %v", again, err)
	}
	if old, err := parsePeak("1 2 3 4 5 true"); err != nil || old.used != 1 || !old.watched {
		t.Errorf("a record of an earlier hookhost: %+v, %v", old, err)
	}
}

// Kernel memory that a sample has seen, on v1 also what none has, is no part of the peak.
func TestPeakWithoutKernelMemory(t *testing.T) {
	const m = 1 << 20
	for name, boot := range map[string]func(...kernfstest.Option) *kernfstest.Kernel{
		"v1": kernfstest.NewV1, "hybrid": kernfstest.NewHybrid, "v2": kernfstest.NewV2,
	} {
		t.Run(name, func(t *testing.T) {
			w := fake{boot}
			j := newJob(t, w.tree(t), testJob, Limits{})
			k := w.kernel(t)
			d, _ := j.with("memory")
			look := func() {
				t.Helper()
				p, _ := d.loadPeak()
				s := (&reader{dir: d}).sample()
				s.at = 0 // however late this machine is
				must.NoError(t, d.storePeak(p.add(s)))
			}
			must.NoError(t, d.storePeak(peak{until: trusted}))
			p := w.start(t, j.Join()).(fakeProcess)
			k.Charge(p.id, kernfstest.Memory{Anon: 2 * m})
			look()
			for _, seen := range []int64{390, 380} {
				k.Charge(p.id, kernfstest.Memory{Kernel: seen * m})
				look()
				k.Charge(p.id, kernfstest.Memory{Kernel: 30 * m})
				k.Free(p.id, kernfstest.Memory{Kernel: 420 * m})
				look()
			}
			if !d.h.v2 {
				k.Charge(p.id, kernfstest.Memory{Kernel: 600 * m})
				k.Free(p.id, kernfstest.Memory{Kernel: 600 * m})
				look()
			}
			if got, _ := d.loadPeak(); got.used != 2*m {
				t.Errorf("peak is %d, want %d: %v", got.used, 2*m, got)
			}
			before, _ := d.loadPeak()
			k.Charge(p.id, kernfstest.Memory{Anon: 1000 * m})
			k.Free(p.id, kernfstest.Memory{Anon: 1000 * m})
			look()
			// The most of kernel memory counts as if it had been there at the same time.
			if got, _ := d.loadPeak(); got.used != 1002*m-before.most {
				t.Errorf("peak is %d, want %d: %v", got.used, 1002*m-before.most, got)
			}
			p.end(t)
			endJob(t, j)
		})
	}
}
