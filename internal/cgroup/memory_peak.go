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

// memorySample is a sample of a job's memory, in bytes.
type memorySample struct {
	anon, shmem, file int64
	kernel            int64  // kernel memory: its peak on v1, its current value on v2
	other             int64  // the rest: pages that each cpu has charged in advance
	current           int64  // all of it
	peak              *int64 // peak of current; nil if the kernel does not record it (v2 before Linux 5.19)
	faults            *int64 // major ones
	brought           *int64 // the most that all page faults so far can have added; nil if unknown
	at                time.Duration
}

func (s *memorySample) used() int64 { return s.anon + s.shmem }

// sample reads the memory of r.dir, or returns nil if that fails.
func (r *reader) sample() *memorySample {
	f := r.dir.memory()
	// The peak is read first. So the parts may include memory that the peak does not, but not the
	// other way round.
	s := &memorySample{at: now(), peak: r.number(f.peak)}
	before := r.number(f.current)
	m := r.keyed(f.stat)
	after := r.number(f.current)
	if m == nil || before == nil || after == nil {
		return nil
	}
	s.anon, s.shmem, s.faults = int64(m[f.anon]), int64(m[f.shmem]), field(m, f.faults)
	s.brought = broughtBy(field(m, f.allFaults), field(m, f.hugeFaults))
	s.file = max(0, int64(m[f.file])-s.shmem) // page cache counts shared memory
	s.current = *after
	// While memory is changing, the parts do not add up. A page is charged before it is counted,
	// and uncharged later than that when a process ends.
	s.other = max(0, min(*before, *after)-s.used()-s.file)
	kernel := field(m, f.kernel)
	if !r.dir.h.v2 {
		kernel = r.number(f.kernel)
	}
	if kernel == nil { // it is included in other
		return s
	}
	s.kernel, s.other = *kernel, min(max(0, s.other-*kernel), setAside)
	if !r.dir.h.v2 {
		// Read after the peak of all memory, and charged after it. So this includes all kernel
		// memory that the peak includes.
		if most := r.number(f.kernelPeak); most != nil {
			s.kernel = max(s.kernel, *most)
		}
	}
	return s
}

// setAside is what the cpus may have charged in advance: MEMCG_CHARGE_BATCH pages each. On v2 the
// counters in memory.stat can lag behind by the same amount (mm/memcontrol.c,
// memcg_vmstats_needs_flush).
var setAside = int64(64 * os.Getpagesize() * runtime.NumCPU())

// broughtBy returns the most memory that page faults can have added, in bytes. Each fault adds a
// page, and a huge one as much as a page of page tables maps. Kernels without huge pages do not
// count huge faults. The result is nil if faults are unknown, as on v1, which does not count huge
// ones separately. It is too small if the administrator has enabled other sizes (Linux 6.8,
// transparent_hugepage/hugepages-64kB).
func broughtBy(all, huge *int64) *int64 {
	if all == nil {
		return nil
	}
	page := int64(os.Getpagesize())
	n := *all * page
	if huge != nil {
		n += *huge * (page / 8 * page)
	}
	return &n
}

// now returns CLOCK_BOOTTIME, which is the same in all processes.
func now() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// peak is the record of a job's samples: the greatest sum of anonymous and shared memory so far,
// called this part below. The other fields are from the last sample and serve to detect a greater
// sum since then.
//
// The kernel records the peak of all memory, but not of this part. If the peak of all memory has
// risen since the last sample, there was one moment when that much was in use. At that moment,
// everything except page cache and kernel memory was this part. Subtracting the most that these two
// can have been gives a lower bound. So even if a process allocates memory and ends at once, its
// memory counts, however late the second sample is.
//
// v1 also records the peak of kernel memory, so page tables that came and went never count. On v2
// the greatest value of all samples is used instead. For page cache, both versions use the two
// samples. If one of the two has fallen, it was higher at some moment in between, and nothing is
// inferred. Page cache that came and went between two samples can still be mistaken for this part,
// and on v2 kernel memory too. So samples must not be far apart: see trusted.
//
// v2 counts page faults, which give a second bound. Since the last sample this part cannot have
// grown by more than the page faults can have added. setAside is added for faults that are not
// counted yet. Written files, sockets, inodes and the like cause no faults, so they never count.
// Some memory can still be mistaken for this part if as many faults added nothing to it. One
// example is the page tables of memory that is only read. The drawback concerns shared memory that
// is filled by write(2) and gone by the next sample. It causes no faults and is not inferred.
type peak struct {
	used  int64         // the greatest sum so far
	all   int64         // the peak of all memory at the last sample, or the greatest sample if the kernel records none
	file  int64         // page cache at the last sample
	other int64         // the rest at the last sample, without kernel memory
	until time.Duration // boot time until which the last sample can be compared with; 0: forever

	watched bool  // there was at least one sample
	seen    int64 // the greatest sum in any single sample; used may be inferred
	kernel  int64 // kernel memory at the last sample
	most    int64 // the greatest kernel memory of all samples

	held    int64 // anonymous and shared memory at the last sample
	brought int64 // by page faults until the last sample
}

// resumed returns the record for another watcher. A record that was valid forever relied on a
// watcher that listened to the kernel. Without that watcher, a rise of the peak of all memory says
// nothing about its parts.
func (p peak) resumed() peak {
	if p.until == 0 {
		p.all = math.MaxInt64
	}
	return p
}

// noPeak is the record of a job that has not begun. Its first sample is compared with nothing.
func noPeak() peak { return peak{until: now() + trusted} }

// trusted is how long a sample can be compared with if the kernel would not announce a change.
const trusted = time.Second

// add adds a sample to the record.
func (p peak) add(s *memorySample) peak {
	next := peak{used: max(p.used, s.used()), file: s.file, other: s.other, until: s.at + trusted, watched: true,
		seen: max(p.seen, s.used()), kernel: s.kernel, most: max(p.most, s.kernel), held: s.used()}
	rise := int64(math.MaxInt64)
	if s.brought != nil {
		next.brought, rise = *s.brought, p.held+max(0, *s.brought-p.brought)+setAside
	}
	switch {
	case s.peak != nil:
		next.all = *s.peak
	case p.all == math.MaxInt64:
		next.all = s.current
	default:
		next.all = max(p.all, s.current)
	}
	// Without the kernel's peak, the greatest sample says nothing about the time between samples.
	if s.peak != nil && next.all > p.all && (p.until == 0 || s.at <= p.until) && !fell(p.file, next.file) &&
		!fell(p.kernel, next.kernel) {
		next.used = max(next.used, min(rise, next.all-max(p.file, next.file)-next.most-max(p.other, next.other)))
	}
	return next
}

// fell reports whether a part has shrunk by more than what any process uses and releases.
func fell(before, after int64) bool { return after < before && !near(before, after) }

// peakMark is the extended attribute of the job's memory directory with its peak, so that a new
// watcher loses nothing. Only Watch writes it.
const peakMark = "trusted.hookhost.mem_peak"

func (p peak) String() string {
	return fmt.Sprintf("%d %d %d %d %d %t %d %d %d %d %d", p.used, p.all, p.file, p.other, int64(p.until),
		p.watched, p.seen, p.kernel, p.most, p.held, p.brought)
}

func parsePeak(text string) (peak, error) {
	var p peak
	n, err := fmt.Sscanf(text, "%d %d %d %d %d %t %d %d %d %d %d", &p.used, &p.all, &p.file, &p.other,
		(*int64)(&p.until), &p.watched, &p.seen, &p.kernel, &p.most, &p.held, &p.brought)
	if n == 6 || n == 7 || n == 9 { // written before seen, or kernel and most, or held and brought existed
		err = nil
	}
	if err == nil && (n < 6 || min(p.used, p.all, p.file, p.other, p.kernel, p.most, p.held, p.brought) < 0) {
		err = errors.New("want five numbers and whether it was watched")
	}
	if err != nil {
		return peak{}, err
	}
	return p, nil
}

// loadPeak returns the record in d's mark. It is false if there is none.
func (d directory) loadPeak() (peak, bool) {
	b, err := d.Xattr(".", peakMark)
	if err != nil {
		return peak{}, false
	}
	p, err := parsePeak(string(b))
	return p, err == nil
}

func (d directory) storePeak(p peak) error { return d.SetXattr(".", peakMark, []byte(p.String())) }

// peaks returns the record's peak and the peak of all memory, including s. used is nil if nobody
// has sampled this job yet. Then all is nil too if the kernel does not record it.
func (r *reader) peaks(s *memorySample) (used, all *int64) {
	p, ok := r.dir.loadPeak()
	if !ok || !p.watched {
		return nil, s.peak
	}
	p = p.add(s)
	return &p.used, &p.all
}

func trim(b []byte) string { return strings.TrimSpace(string(b)) }
