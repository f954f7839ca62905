package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup/cgrouptest"
	"github.com/hookhost/hookhost/internal/must"
)

// BenchmarkBeginEnd runs begin, epilogue and end of a job without processes on the running kernel.
// BenchmarkRaw is its floor.
func BenchmarkBeginEnd(b *testing.B) {
	n := benchNode(b)
	for b.Loop() {
		n.cycle(b)
	}
}

// BenchmarkRaw makes the kernel do the same work as for BenchmarkBeginEnd, with system calls alone.
// It makes and removes the same directories, writes and reads back the same limits, and reads the
// same counters.
func BenchmarkRaw(b *testing.B) {
	floor := benchNode(b).floor(b)
	for b.Loop() {
		must.NoError(b, floor.Cycle("1.srv"))
	}
}

// BenchmarkRatio alternates between the two, so that other load on the machine affects both.
func BenchmarkRatio(b *testing.B) {
	n := benchNode(b)
	floor := n.floor(b)
	var hook, raw []time.Duration
	for b.Loop() {
		start := time.Now()
		n.cycle(b)
		middle := time.Now()
		must.NoError(b, floor.Cycle("1.srv"))
		hook, raw = append(hook, middle.Sub(start)), append(raw, time.Since(middle))
	}
	cgrouptest.Row(b, fmt.Sprintf("begin + epilogue + end of `hooks/cgroup`, %v", n.tree.Mode()), hook, raw, "1.5")
}

// floor finds out from one job what the kernel has to do for each.
func (n *node) floor(b *testing.B) *cgrouptest.Floor {
	b.Helper()
	n.do(hostapi.EventBegin, "1.srv")
	defer n.do(hostapi.EventEnd, "1.srv")
	unit := strings.Split(n.cgroup("1.srv").MemoryPath(), "/")[1]
	floor, err := cgrouptest.NewFloor(unit, "1.srv")
	must.NoError(b, err)
	return floor
}

// BenchmarkBeginEndBeside is BenchmarkBeginEnd on a node that already has 64 jobs.
func BenchmarkBeginEndBeside(b *testing.B) {
	n := benchNode(b)
	defer n.crowd()()
	for b.Loop() {
		n.cycle(b)
	}
}

// BenchmarkPeriodic measures a periodic for 64 jobs.
func BenchmarkPeriodic(b *testing.B) {
	n := benchNode(b)
	defer n.crowd()()
	for b.Loop() {
		if out := n.do(hostapi.EventPeriodic, ""); len(out.Jobs) != crowd {
			b.Fatal(len(out.Jobs))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/crowd, "µs/job")
}

const crowd = 64

// crowd begins many jobs and returns a function that ends them.
func (n *node) crowd() (end func()) {
	id := func(i int) string { return fmt.Sprintf("%d.srv", 100+i) }
	for i := range crowd {
		n.do(hostapi.EventBegin, id(i), asks("ncpus=0", "mem=1mb"))
	}
	return func() {
		for i := range crowd {
			n.do(hostapi.EventEnd, id(i))
		}
	}
}

func benchNode(b *testing.B) *node {
	b.Helper()
	n := realNode(b, nil)
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	n.log = logrus.NewEntry(quiet)
	return n
}

func (n *node) cycle(b *testing.B) {
	n.do(hostapi.EventBegin, "1.srv")
	n.do(hostapi.EventEpilogue, "1.srv")
	n.do(hostapi.EventEnd, "1.srv")
}

// BenchmarkAttach repeatedly attaches a session of one process. It reads /proc, and moves the
// process to the cgroup where it already is.
func BenchmarkAttach(b *testing.B) {
	n := realNode(b, nil)
	n.do(hostapi.EventBegin, "1.srv")
	pid := startActor(b, nil, "sleep").child.PID
	for b.Loop() {
		n.do(hostapi.EventAttach, "1.srv", withPID(pid))
	}
	n.do(hostapi.EventEpilogue, "1.srv")
	n.do(hostapi.EventEnd, "1.srv")
}
