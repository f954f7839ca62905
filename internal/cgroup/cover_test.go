package cgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a job has on its way from one size to another is no less than either in all that is shared out among jobs.
func TestCover(t *testing.T) {
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
		{"less", Limits{Mem: size(2 * m), MemSwap: size(2 * m)}, Limits{Mem: size(m), MemSwap: size(3 * m)}, Limits{Mem: size(2 * m), MemSwap: size(3 * m)}, true},
		{"no limit before", Limits{}, Limits{Mem: size(m)}, Limits{}, true},
		{"no limit any more", Limits{Mem: size(m)}, Limits{}, Limits{}, false},
		{"memory.high", Limits{}, Limits{Mem: nil, MemHigh: size(m)}, Limits{}, true},
		{"more cpus", cpus("0-1", Limits{}), cpus("0-2", Limits{}), cpus("0-2", Limits{}), false},
		{"other cpus", cpus("0-1", Limits{}), cpus("1-2", Limits{}), cpus("0-2", Limits{}), true},
		{"what is a job's alone", Limits{CPUShares: 9, Pids: size(9)}, Limits{CPUShares: 1, Pids: size(1)}, Limits{CPUShares: 1, Pids: size(1)}, false},
		{"fewer huge pages", Limits{Hugetlb: map[int64]int64{page: 9 * page}}, Limits{Hugetlb: map[int64]int64{page: page}},
			Limits{Hugetlb: map[int64]int64{page: 9 * page}}, true},
		{"huge pages had no limit", Limits{}, Limits{Hugetlb: map[int64]int64{page: page}}, Limits{Hugetlb: map[int64]int64{}}, true},
		{"more huge pages", Limits{Hugetlb: map[int64]int64{page: page}}, Limits{Hugetlb: map[int64]int64{page: 9 * page}},
			Limits{Hugetlb: map[int64]int64{page: 9 * page}}, false},
	} {
		got, narrows := tt.to.Cover(tt.had)
		if diff := cmp.Diff(tt.want, got, cmpSets); diff != "" || narrows != tt.narrower {
			t.Errorf("%s: narrows %t (-want +got):\n%s", tt.name, narrows, diff)
		}
	}
}

// What a job is brought down to is no more than it has, and never less than one of the two sizes in cpus.
func TestWithin(t *testing.T) {
	const page, m = 2 << 20, 1 << 20
	cpus := func(cpus, mems string) Limits { return Limits{CPUs: mustSet(t, cpus), Mems: mustSet(t, mems)} }
	for _, tt := range []struct {
		name          string
		to, had, want Limits
	}{
		{"the same", Limits{Mem: size(m)}, Limits{Mem: size(m)}, Limits{Mem: size(m)}},
		{"less", Limits{Mem: size(m), MemSwap: size(3 * m)}, Limits{Mem: size(2 * m), MemSwap: size(2 * m)}, Limits{Mem: size(m), MemSwap: size(2 * m)}},
		{"no limit had", Limits{Mem: size(m), MemHigh: size(m)}, Limits{}, Limits{Mem: size(m), MemHigh: size(m)}},
		{"no limit wanted", Limits{}, Limits{Mem: size(m), MemSwap: size(m), MemHigh: size(m)}, Limits{Mem: size(m), MemSwap: size(m), MemHigh: size(m)}},
		{"fewer cpus", cpus("1", "0"), cpus("0-2", "0-1"), cpus("1", "0")},
		{"some other cpus", cpus("0-1", "0"), cpus("1-2", "1"), cpus("1-2", "1")},
		{"more cpus", cpus("0-3", "0-1"), cpus("1-2", "1"), cpus("1-2", "1")},
		{"other nodes", cpus("1", "0-1"), cpus("1-2", "0"), cpus("1", "0")},
		{"all nodes", cpus("1", ""), cpus("1-2", "0"), cpus("1", "0")},
		{"no cpus of its own any more", cpus("", ""), cpus("1-2", "0"), cpus("", "")},
		{"none before", cpus("1", "0"), cpus("", ""), cpus("", "")},
		{"huge pages", Limits{Hugetlb: map[int64]int64{page: page, 2 * page: 9 * page, 4 * page: page}}, Limits{Hugetlb: map[int64]int64{page: 2 * page, 2 * page: page, 8 * page: page}},
			Limits{Hugetlb: map[int64]int64{page: page, 2 * page: page, 4 * page: page, 8 * page: page}}},
		{"what is a job's alone", Limits{CPUShares: 9, Pids: size(9)}, Limits{CPUShares: 1, Pids: size(1)}, Limits{CPUShares: 9, Pids: size(9)}},
	} {
		if diff := cmp.Diff(tt.want, tt.to.Within(tt.had), cmpSets); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
