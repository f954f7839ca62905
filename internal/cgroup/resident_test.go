package cgroup

import (
	"errors"
	"testing"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
)

// Page cache is left out, one file is enough where all of it is little, and what a sample has shown is remembered.
func TestResident(t *testing.T) {
	for name, boot := range map[string]func(...kernfstest.Option) *kernfstest.Kernel{
		"v1": kernfstest.NewV1, "hybrid": kernfstest.NewHybrid, "v2": kernfstest.NewV2,
	} {
		t.Run(name, func(t *testing.T) {
			w := fake{boot}
			j := newJob(t, w.tree(t), testJob, Limits{})
			k := w.kernel(t)
			p := w.start(t, j.Join()).(fakeProcess)
			k.Charge(p.id, kernfstest.Memory{Anon: 30 << 20, Shmem: 10 << 20, File: 500 << 20})
			for _, tt := range []struct {
				enough int64
				want   Resident
			}{
				{1 << 30, Resident{Used: 540 << 20}},
				{100 << 20, Resident{Used: 40 << 20, Exact: true, Seen: 40 << 20}},
			} {
				if got, err := j.Resident(tt.enough); err != nil || got != tt.want {
					t.Errorf("%d is enough: %+v, %v; want %+v", tt.enough, got, err, tt.want)
				}
			}
			d, _ := j.with("memory")
			r := &reader{dir: d}
			if err := d.storePeak(noPeak().add(r.sample())); err != nil {
				t.Fatal(err)
			}
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

// What is inferred of a peak is in no sample: nobody is killed for it.
func TestSeenIsNotInferred(t *testing.T) {
	all := int64(100 << 20)
	p := peak{}.add(&sample{anon: 1 << 20, peak: new(int64)}).add(&sample{anon: 1 << 20, peak: &all})
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
				if err := d.storePeak(p.add(s)); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.storePeak(peak{until: trusted}); err != nil {
				t.Fatal(err)
			}
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
			// What kernel memory was at most counts as if it had been there at the same time.
			if got, _ := d.loadPeak(); got.used != 1002*m-before.most {
				t.Errorf("peak is %d, want %d: %v", got.used, 1002*m-before.most, got)
			}
			p.end(t)
			endJob(t, j)
		})
	}
}
