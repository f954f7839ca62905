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

// BenchmarkBeginEnd is a job without a process on the running kernel: begin, epilogue and end.
// BenchmarkRaw is its floor.
func BenchmarkBeginEnd(b *testing.B) {
	n := benchNode(b)
	for b.Loop() {
		n.cycle(b)
	}
}

// BenchmarkRaw has the kernel do what it does for BenchmarkBeginEnd, by system calls alone. The
// same directories are made and removed, the same limits written and read back, the same counters
// read.
func BenchmarkRaw(b *testing.B) {
	floor := benchNode(b).floor(b)
	for b.Loop() {
		must.NoError(b, floor.Cycle("1.srv"))
	}
}

// BenchmarkRatio does both in turn, so that what else the machine does meets both.
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

// floor learns the kernel's part of a job from one.
func (n *node) floor(b *testing.B) *cgrouptest.Floor {
	b.Helper()
	n.do(hostapi.EventBegin, "1.srv")
	defer n.do(hostapi.EventEnd, "1.srv")
	unit := strings.Split(n.cgroup("1.srv").MemoryPath(), "/")[1]
	floor, err := cgrouptest.NewFloor(unit, "1.srv")
	must.NoError(b, err)
	return floor
}

// BenchmarkBeginEndBeside is BenchmarkBeginEnd on a node that has 64 jobs.
func BenchmarkBeginEndBeside(b *testing.B) {
	n := benchNode(b)
	defer n.crowd()()
	for b.Loop() {
		n.cycle(b)
	}
}

// BenchmarkPeriodic measures 64 jobs.
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

// crowd begins many jobs and returns what ends them.
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

// BenchmarkAttach takes in a session of one, again and again: reads of /proc, and moves to where it
// is already.
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
