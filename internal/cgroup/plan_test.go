package cgroup

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/must"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestPlanWritesInTheKernelsOrder records what is written to which file, and in which order, for
// limits and changes of limits.
func TestPlanWritesInTheKernelsOrder(t *testing.T) {
	const m = 1 << 20
	swappiness := 0
	full := Limits{Mem: size(64 * m), MemSwap: size(96 * m), CPUs: kernfs.IDs(0, 1, 2, 5), Mems: kernfs.IDs(0),
		CPUShares: 3000, Quota: 300 * time.Millisecond, Period: 100 * time.Millisecond, Pids: size(100),
		Swappiness: &swappiness}
	with := func(change func(*Limits)) Limits {
		l := full
		change(&l)
		return l
	}
	var b strings.Builder
	for _, tt := range []struct {
		name string
		from *Limits
		to   Limits
	}{
		{"new, without limits", nil, Limits{}},
		{"new, with all limits", nil, full},
		{"new, memory only", nil, Limits{Mem: size(64*m + 1)}},
		{"nothing changes", &full, full},
		{"memory rises", &full, with(func(l *Limits) { l.Mem, l.MemSwap = size(200*m), size(200*m) })},
		{"memory falls", &full, with(func(l *Limits) { l.Mem, l.MemSwap = size(10*m), size(20*m) })},
		{"memory rises, both together fall", &full,
			with(func(l *Limits) { l.Mem, l.MemSwap = size(70*m), size(80*m) })},
		{"both together have no limit any more", &full, with(func(l *Limits) { l.Mem, l.MemSwap = size(200*m), nil })},
		{"both together get a limit", &Limits{Mem: size(64 * m)},
			with(func(l *Limits) { l.Mem, l.MemSwap = size(10*m), size(10*m) })},
		{"cpus change", &full, with(func(l *Limits) { l.CPUs, l.Mems = kernfs.IDs(7), kernfs.IDs(1) })},
		{"all limits are lifted", &full, Limits{}},
	} {
		fmt.Fprintf(&b, "%s\n", tt.name)
		for _, v := range []struct {
			version string
			plan    []write
		}{{"v1", plan(false, controllerNames(), tt.from, &tt.to)},
			{"v2", plan(true, controllerNames(), tt.from, &tt.to)}} {
			for _, w := range v.plan {
				fmt.Fprintf(&b, "\t%s\t%s = %q", v.version, w.File, w.Value)
				if w.Old != "" {
					fmt.Fprintf(&b, ", undo %q", w.Old)
				}
				b.WriteString("\n")
			}
		}
	}
	golden(t, "testdata/plans.txt", b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		must.NoError(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want, err := os.ReadFile(name)
	must.NoError(t, err)
	must.Equal(t, name, string(want), got)
}

func TestWeightFollowsShares(t *testing.T) {
	for shares, want := range map[uint64]uint64{
		2: 1, 10: 1, 1000: 98, 1024: 100, 2048: 200, 102400: 10000, 1 << 18: 10000,
	} {
		if got := weight(shares); got != want {
			t.Errorf("weight(%d) = %d, want %d", shares, got, want)
		}
	}
}

func TestHoldsComparesAsTheKernelRounds(t *testing.T) {
	page := os.Getpagesize()
	for _, tt := range []struct {
		format    format
		want, got string
		ok        bool
	}{
		{asSize, fmt.Sprint(10*page + 5), fmt.Sprint(10 * page), true},
		{asSize, fmt.Sprint(10*page + 5), fmt.Sprint(11 * page), false},
		{asSize, "-1", "9223372036854771712", true},
		{asSize, "max", "max", true},
		{asSize, "max", fmt.Sprint(page), false},
		{asSize, fmt.Sprint(page), "max", false},
		{asSize, "-1", "", false},
		{asSize, "max", "banana", false},
		{asSet, "0-1", "0-1", true},
		{asSet, "0,1", "0-1", true},
		{asSet, "0-1", "0", false},
		{asSet, "\n", "0-3", true},
		{asSet, "0", "banana", false},
		{asWritten, "50000 100000", "50000 100000", true},
		{asWritten, "100", "101", false},
	} {
		if ok := tt.format.holds(tt.want, tt.got); ok != tt.ok {
			t.Errorf("%q shown as %q: in force is %t", tt.want, tt.got, ok)
		}
	}
}
