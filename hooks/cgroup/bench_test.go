package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
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

// BenchmarkRaw does to the kernel's files what BenchmarkBeginEnd does, by system calls alone. The
// same directories are made and removed, the same limits written and read back, the same counters
// read.
func BenchmarkRaw(b *testing.B) {
	r := newRaw(b, benchNode(b))
	for b.Loop() {
		r.cycle(b)
	}
}

// BenchmarkRatio does both in turn, so that what else the machine does meets both, and tells their
// ratio: 2 is the goal.
func BenchmarkRatio(b *testing.B) {
	n := benchNode(b)
	r := newRaw(b, n)
	var hook, raw int64
	for b.Loop() {
		start := sinceBootNanos()
		n.cycle(b)
		middle := sinceBootNanos()
		r.cycle(b)
		hook, raw = hook+middle-start, raw+sinceBootNanos()-middle
	}
	b.ReportMetric(float64(hook)/float64(raw), "ratio")
	b.ReportMetric(float64(hook)/float64(b.N), "hook-ns/op")
	b.ReportMetric(float64(raw)/float64(b.N), "raw-ns/op")
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

func sinceBootNanos() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// raw is the floor of a cycle.
type raw struct {
	dirs   []string
	values []rawValue
	reads  []string
	buf    []byte
}

type rawValue struct{ file, text string }

// newRaw finds the directories of a job and the values of its limits by making one with the hook.
func newRaw(b *testing.B, n *node) *raw {
	b.Helper()
	n.do(hostapi.EventBegin, "1.srv")
	defer n.do(hostapi.EventEnd, "1.srv")
	r := &raw{buf: make([]byte, 16<<10)}
	unit := strings.TrimSuffix(n.cgroup("1.srv").MemoryPath(), "1.srv")
	unit = strings.Split(unit, "/")[1]
	for _, root := range []string{"/sys/fs/cgroup/*/", "/sys/fs/cgroup/"} {
		dirs, err := filepath.Glob(root + unit + "/job*/1.srv")
		must.NoError(b, err)
		r.dirs = append(r.dirs, dirs...)
	}
	for i, dir := range r.dirs {
		// The hook's own limits, as the kernel shows them.
		for _, file := range []string{
			"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max", "memory.swap.max",
			"cpuset.cpus", "cpuset.mems",
			"cpu.shares", "cpu.weight",
		} {
			if text, err := os.ReadFile(dir + "/" + file); err == nil {
				r.values = append(r.values, rawValue{dir + "/" + file, strings.TrimSpace(string(text))})
			}
		}
		for _, file := range []string{
			"cpuacct.usage", "cpuacct.stat", "cpu.stat",
			"memory.stat", "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.memsw.max_usage_in_bytes",
			"memory.failcnt", "memory.memsw.failcnt", "memory.oom_control",
			"memory.current", "memory.peak", "memory.events", "memory.swap.peak",
			"pids.current", "pids.peak", "cgroup.procs",
		} {
			if _, err := os.Stat(dir + "/" + file); err == nil {
				r.reads = append(r.reads, dir+"/"+file)
			}
		}
		r.dirs[i] = dir
	}
	return r
}

func (r *raw) cycle(b *testing.B) {
	check := func(err error) {
		must.NoError(b, err)
	}
	read := func(file string) {
		fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		check(err)
		_, err = unix.Read(fd, r.buf)
		check(err)
		check(unix.Close(fd))
	}
	for _, dir := range r.dirs {
		check(unix.Mkdir(dir, 0o755))
	}
	for _, v := range r.values {
		fd, err := unix.Open(v.file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		check(err)
		for {
			// A signal, such as the runtime's, interrupts a write of a memory limit
			// (mem_cgroup_resize_max).
			if _, err = unix.Write(fd, []byte(v.text)); !errors.Is(err, unix.EINTR) {
				break
			}
		}
		check(err)
		check(unix.Close(fd))
		read(v.file)
	}
	for _, file := range r.reads {
		read(file)
	}
	for _, dir := range r.dirs {
		check(unix.Rmdir(dir))
	}
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
