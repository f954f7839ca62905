package cgroup

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sample is a look at a job's memory, in bytes.
type sample struct {
	anon, shmem, file int64
	other             int64  // kernel memory, and what each cpu has set aside for the pages to come
	current           int64  // all of it
	peak              *int64 // of current, ever; nil where the kernel does not keep it (v2 before Linux 5.19)
	at                time.Duration
}

func (s *sample) used() int64 { return s.anon + s.shmem }

// sample reads the memory of r.dir; nil when it cannot.
func (r *reader) sample() *sample {
	f := &v1Memory
	if r.dir.h.v2 {
		f = &v2Memory
	}
	// The peak is read first: what it has not seen yet may come to the parts, but no part is missing that it has seen.
	s := &sample{at: now(), peak: r.number(f.peak)}
	before := r.number(f.current)
	m := r.keyed(f.stat)
	after := r.number(f.current)
	if m == nil || before == nil || after == nil {
		return nil
	}
	s.anon, s.shmem = int64(m[f.anon]), int64(m[f.shmem])
	s.file = max(0, int64(m[f.file])-s.shmem) // page cache counts shared memory
	s.current = *after
	// While memory comes and goes the parts do not add up: a page is charged before it is counted, and when a process
	// ends, uncharged after. Kernel memory has a count of its own, so that is no part of other.
	s.other = max(0, min(*before, *after)-s.used()-s.file)
	kernel := field(m, f.kernel)
	if !r.dir.h.v2 {
		kernel = r.number(f.kernel)
	}
	if kernel != nil {
		s.other = min(s.other, *kernel+setAside)
	}
	return s
}

// setAside is what the cpus may have charged in advance: MEMCG_CHARGE_BATCH pages each.
var setAside = int64(64 * os.Getpagesize() * runtime.NumCPU())

// memoryFiles are the files that a sample is made of, and the keys in stat.
type memoryFiles struct{ current, peak, kernel, stat, anon, shmem, file string }

var (
	v1Memory = memoryFiles{
		current: "memory.usage_in_bytes", peak: "memory.max_usage_in_bytes", kernel: "memory.kmem.usage_in_bytes",
		stat: "memory.stat", anon: "total_rss", shmem: "total_shmem", file: "total_cache",
	}
	v2Memory = memoryFiles{
		current: "memory.current", peak: "memory.peak", kernel: "kernel", // a key: since Linux 5.18
		stat: "memory.stat", anon: "anon", shmem: "shmem", file: "file",
	}
)

// now is CLOCK_BOOTTIME, which all processes share.
func now() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// peak is the record of a job's samples: the greatest sum of anonymous and shared memory so far, and what is needed of the
// last sample to tell whether there was a greater one since.
//
// The kernel keeps the peak of all memory, but not of this part. When the peak of all memory has risen since the last
// sample, then at that moment everything but page cache and kernel memory was this part; and if these two were at most
// what they are at either sample, that is a lower bound for it. So a process that takes memory and ends at once counts
// fully, however late the second sample is. The condition fails only for files that are read or written and deleted
// between two samples, which therefore must not be far apart: see trusted.
type peak struct {
	used  int64         // the peak
	all   int64         // memory.max_usage_in_bytes at the last sample
	file  int64         // page cache then
	other int64         // the rest then
	until time.Duration // boot time up to which the last sample is near enough to compare with; 0 for ever

	watched bool // there was a sample
}

// taken is the record as a watcher takes it up that did not make it. What counted for ever did so because a watcher had
// the kernel announce changes; with that watcher gone, what came to the peak of all memory since tells nothing of its parts.
func (p peak) taken() peak {
	if p.until == 0 {
		p.all = math.MaxInt64
	}
	return p
}

// noPeak is the record of a job that has not begun: its first sample counts from nothing.
func noPeak() peak { return peak{until: now() + trusted} }

// trusted is how long a sample serves for comparison when nothing would have announced a change since.
const trusted = time.Second

// add counts a sample.
func (p peak) add(s *sample) peak {
	next := peak{used: max(p.used, s.used()), file: s.file, other: s.other, until: s.at + trusted, watched: true}
	if s.peak != nil {
		next.all = *s.peak
	}
	if next.all > p.all && (p.until == 0 || s.at <= p.until) {
		next.used = max(next.used, next.all-max(p.file, next.file)-max(p.other, next.other))
	}
	return next
}

// peakMark is the extended attribute of the job's memory directory that holds its peak, so that a watcher that starts
// anew loses nothing. Only Watch writes it.
const peakMark = "trusted.hookhost.mem_peak"

func (p peak) String() string {
	return fmt.Sprintf("%d %d %d %d %d %t", p.used, p.all, p.file, p.other, int64(p.until), p.watched)
}

func parsePeak(text string) (peak, error) {
	var p peak
	n, err := fmt.Sscanf(text, "%d %d %d %d %d %t", &p.used, &p.all, &p.file, &p.other, (*int64)(&p.until), &p.watched)
	if err == nil && (n != 6 || p.used < 0 || p.all < 0 || p.file < 0 || p.other < 0) {
		err = errors.New("want five numbers and whether it was watched")
	}
	if err != nil {
		return peak{}, err
	}
	return p, nil
}

// loadPeak returns the record in d's mark; false when there is none.
func (d directory) loadPeak() (peak, bool) {
	b, err := d.Xattr(".", peakMark)
	if err != nil {
		return peak{}, false
	}
	p, err := parsePeak(string(b))
	return p, err == nil
}

func (d directory) storePeak(p peak) error { return d.SetXattr(".", peakMark, []byte(p.String())) }

// memPeak returns the peak with s counted in; nil when nobody has sampled this job yet.
func (r *reader) memPeak(s *sample) *int64 {
	p, ok := r.dir.loadPeak()
	if !ok || !p.watched {
		return nil
	}
	used := p.add(s).used
	return &used
}

func trim(b []byte) string { return strings.TrimSpace(string(b)) }
