package cgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A job has, on its way from one size to another, no less than either of all that jobs share out.
func TestCoverIsNoLessThanEitherSize(t *testing.T) {
	const page, m = 2 << 20, 1 << 20
	cpus := func(text string, l Limits) Limits {
		l.CPUs = mustSet(t, text)
		return l
	}
	for _, tt := range []struct {
		name     string
		had, to  Limits
		want     Limits
		narrower bool
	}{
		{"the same", Limits{Mem: size(m)}, Limits{Mem: size(m)}, Limits{Mem: size(m)}, false},
		{"more", Limits{Mem: size(m)}, Limits{Mem: size(2 * m)}, Limits{Mem: size(2 * m)}, false},
		{"less", Limits{Mem: size(2 * m), MemSwap: size(2 * m)}, Limits{Mem: size(m), MemSwap: size(3 * m)},
			Limits{Mem: size(2 * m), MemSwap: size(3 * m)}, true},
		{"no limit before", Limits{}, Limits{Mem: size(m)}, Limits{}, true},
		{"no limit any more", Limits{Mem: size(m)}, Limits{}, Limits{}, false},
		{"memory.high", Limits{}, Limits{Mem: nil, MemHigh: size(m)}, Limits{}, true},
		{"more cpus", cpus("0-1", Limits{}), cpus("0-2", Limits{}), cpus("0-2", Limits{}), false},
		{"other cpus", cpus("0-1", Limits{}), cpus("1-2", Limits{}), cpus("0-2", Limits{}), true},
		{"what is a job's alone", Limits{CPUShares: 9, Pids: size(9)}, Limits{CPUShares: 1, Pids: size(1)},
			Limits{CPUShares: 1, Pids: size(1)}, false},
		{"fewer huge pages", Limits{Hugetlb: map[int64]int64{page: 9 * page}},
			Limits{Hugetlb: map[int64]int64{page: page}},
			Limits{Hugetlb: map[int64]int64{page: 9 * page}}, true},
		{"huge pages had no limit", Limits{}, Limits{Hugetlb: map[int64]int64{page: page}},
			Limits{Hugetlb: map[int64]int64{}}, true},
		{"more huge pages", Limits{Hugetlb: map[int64]int64{page: page}},
			Limits{Hugetlb: map[int64]int64{page: 9 * page}},
			Limits{Hugetlb: map[int64]int64{page: 9 * page}}, false},
	} {
		got, narrows := tt.to.Cover(tt.had)
		if diff := cmp.Diff(tt.want, got, cmpSets); diff != "" || narrows != tt.narrower {
			t.Errorf("%s: narrows %t (-want +got):\n%s", tt.name, narrows, diff)
		}
	}
}
