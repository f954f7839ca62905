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

// memorySample is a look at a job's memory, in bytes.
type memorySample struct {
	anon, shmem, file int64
	kernel            int64  // kernel memory: the most that it ever was on v1, which keeps that; now on v2
	other             int64  // the rest: what each cpu has set aside for the pages to come
	current           int64  // all of it
	peak              *int64 // of current, ever; nil where the kernel does not keep it (v2 before Linux 5.19)
	faults            *int64 // major ones
	brought           *int64 // what all page faults so far can have brought at most; nil where that cannot be told
	at                time.Duration
}

func (s *memorySample) used() int64 { return s.anon + s.shmem }

// sample reads the memory of r.dir; nil when it cannot.
func (r *reader) sample() *memorySample {
	f := r.dir.memory()
	// The peak is read first: what it has not seen yet may come to the parts, but no part is
	// missing that it has seen.
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
	// While memory comes and goes the parts do not add up. A page is charged before it is counted,
	// and uncharged after that when a process ends.
	s.other = max(0, min(*before, *after)-s.used()-s.file)
	kernel := field(m, f.kernel)
	if !r.dir.h.v2 {
		kernel = r.number(f.kernel)
	}
	if kernel == nil { // it is in the rest
		return s
	}
	s.kernel, s.other = *kernel, min(max(0, s.other-*kernel), setAside)
	if !r.dir.h.v2 {
		// Read after the peak of all memory, and charged after it: what that has seen of kernel
		// memory is in this.
		if most := r.number(f.kernelPeak); most != nil {
			s.kernel = max(s.kernel, *most)
		}
	}
	return s
}

// setAside is what the cpus may have charged in advance: MEMCG_CHARGE_BATCH pages each. The
// counters in memory.stat may be behind by as many on v2 (mm/memcontrol.c,
// memcg_vmstats_needs_flush).
var setAside = int64(64 * os.Getpagesize() * runtime.NumCPU())

// broughtBy is the most that page faults can have brought, in bytes. Each brought a page, and huge
// ones what a page of page tables maps (a kernel without huge pages does not count them). nil
// stands for faults that are not told, as on v1, which does not tell huge ones apart. The result is
// too little if the administrator has made other sizes usual (Linux 6.8,
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

// now is CLOCK_BOOTTIME, which all processes share.
func now() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// peak is the record of a job's samples. The record has the greatest sum of anonymous and shared
// memory so far. The rest of it, of the last sample, tells whether there was a greater sum since.
//
// The kernel keeps the peak of all memory, but not of this part. A rise of the peak of all memory
// since the last sample tells of one moment. At that moment all but page cache and kernel memory
// was this part. With the most that these two can have been, that is a lower bound for this part.
// So a process that takes memory and ends at once counts fully, however late the second sample is.
//
// v1 keeps the peak of kernel memory too, so page tables that came and went never count as this
// part. On v2 the most that any sample saw is known. Both versions know of page cache what the two
// samples saw. If one of these has fallen, it was more at some moment in between, and nothing is
// inferred. Page cache that came and went wholly between two samples is left, and on v2 kernel
// memory. Samples therefore must not be far apart: see trusted.
//
// v2 counts page faults, which is one bound more. Since the last sample this part has risen by no
// more than the faults of the time can have brought. setAside is added for faults that are not
// counted yet. Files that are written, sockets, inodes and the like take no faults, so they never
// count there. Memory may still count that came and went beside as many faults that brought nothing
// of the job's own. Page tables of memory that is only read are such. The price is shared memory
// that write(2) fills and that is gone by the next sample: it takes no faults and is not inferred.
type peak struct {
	used  int64         // the peak
	all   int64         // the peak of all memory at the last sample; the greatest sample where the kernel keeps none
	file  int64         // page cache then
	other int64         // the rest then, without kernel memory
	until time.Duration // boot time up to which the last sample is near enough to compare with; 0 for ever

	watched bool  // there was a sample
	seen    int64 // the greatest sum that a sample itself showed; used may be inferred
	kernel  int64 // kernel memory at the last sample
	most    int64 // the greatest of all samples

	held    int64 // anonymous and shared memory at the last sample
	brought int64 // by page faults up to then
}

// resumed is the record as another watcher resumes it. A record that counted for ever did so
// because a watcher had the kernel announce changes. With that watcher gone, a rise of the peak of
// all memory says nothing of its parts.
func (p peak) resumed() peak {
	if p.until == 0 {
		p.all = math.MaxInt64
	}
	return p
}

// noPeak is the record of a job that has not begun: its first sample counts from nothing.
func noPeak() peak { return peak{until: now() + trusted} }

// trusted is how long a sample serves for comparison when nothing would have announced a change
// since.
const trusted = time.Second

// add counts a sample.
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
	// The greatest sample is no news of what was between two of them.
	if s.peak != nil && next.all > p.all && (p.until == 0 || s.at <= p.until) && !fell(p.file, next.file) &&
		!fell(p.kernel, next.kernel) {
		next.used = max(next.used, min(rise, next.all-max(p.file, next.file)-next.most-max(p.other, next.other)))
	}
	return next
}

// fell reports whether a part has become less by more than what comes and goes with any process.
func fell(before, after int64) bool { return after < before && !near(before, after) }

// peakMark is the extended attribute of the job's memory directory that holds its peak, so that a
// watcher that starts anew loses nothing. Only Watch writes it.
const peakMark = "trusted.hookhost.mem_peak"

func (p peak) String() string {
	return fmt.Sprintf("%d %d %d %d %d %t %d %d %d %d %d", p.used, p.all, p.file, p.other, int64(p.until),
		p.watched, p.seen, p.kernel, p.most, p.held, p.brought)
}

func parsePeak(text string) (peak, error) {
	var p peak
	n, err := fmt.Sscanf(text, "%d %d %d %d %d %t %d %d %d %d %d", &p.used, &p.all, &p.file, &p.other,
		(*int64)(&p.until), &p.watched, &p.seen, &p.kernel, &p.most, &p.held, &p.brought)
	if n == 6 || n == 7 || n == 9 { // from before there was seen, or kernel and most, or held and brought
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

// peaks returns the record's peak and that of all memory, with s counted in. used is nil when
// nobody has sampled this job yet, and then all is nil if the kernel does not keep it.
func (r *reader) peaks(s *memorySample) (used, all *int64) {
	p, ok := r.dir.loadPeak()
	if !ok || !p.watched {
		return nil, s.peak
	}
	p = p.add(s)
	return &p.used, &p.all
}

func trim(b []byte) string { return strings.TrimSpace(string(b)) }
