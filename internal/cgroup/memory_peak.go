package cgroup

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// memorySample is a sample of a job's memory, in bytes.
type memorySample struct {
	anon, shmem, file int64
	faults            *int64 // major page faults
}

func (s *memorySample) used() int64 { return s.anon + s.shmem }

// sample reads the memory of r.dir, or returns nil if that fails.
func (r *reader) sample() *memorySample {
	f := r.dir.memory()
	m := r.keyed(f.stat)
	if m == nil {
		return nil
	}
	s := &memorySample{anon: int64(m[f.anon]), shmem: int64(m[f.shmem]), faults: field(m, f.faults)}
	s.file = max(0, int64(m[f.file])-s.shmem) // the kernel's page cache includes shared memory
	return s
}

// peak holds the greatest values of all samples of a job, in bytes. It never decreases.
type peak struct {
	used int64 // anonymous and shared memory
	all  int64 // all memory, page cache included; 0 if the kernel records that peak itself
}

// peakMark is the extended attribute of the job's memory directory that stores its peak, so that a
// new process continues from there.
const peakMark = "trusted.hookhost.mem_peak"

func (p peak) String() string { return fmt.Sprintf("%d %d", p.used, p.all) }

func parsePeak(text string) (peak, error) {
	used, all, _ := strings.Cut(text, " ")
	n, err := strconv.ParseUint(used, 10, 63)
	m, err2 := strconv.ParseUint(all, 10, 63)
	if err := errors.Join(err, err2); err != nil {
		return peak{}, fmt.Errorf("peak of memory %q: %w", text, err)
	}
	return peak{int64(n), int64(m)}, nil
}

// loadPeak returns the peak in d's mark. found is false if there is none, or if it is not one of
// hookhost.
func (d directory) loadPeak() (p peak, found bool, err error) {
	b, err := d.Xattr(".", peakMark)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, kernfs.ErrUnsupported) {
		return peak{}, false, nil
	}
	if err != nil {
		return peak{}, false, err
	}
	p, err = parsePeak(string(b))
	return p, err == nil, nil
}

// raisePeak raises each value of the peak in d's mark to that of p if p's is greater. It changes
// nothing if the mark cannot be read. One goroutine at a time raises the peak of a job.
func (d directory) raisePeak(p peak) error {
	old, found, err := d.loadPeak()
	if err != nil {
		return err
	}
	p = peak{max(p.used, old.used), max(p.all, old.all)}
	if found && p == old {
		return nil
	}
	return d.SetXattr(".", peakMark, []byte(p.String()))
}

// NoteMemPeak stores used as the job's peak, in bytes, unless a greater one is stored. It must
// not run at the same time as Watch. It fails with ErrNotFound if the job has no cgroup. Without a
// memory controller it does nothing.
func (j *Job) NoteMemPeak(used int64) error {
	d, ok := j.with("memory")
	if !ok {
		return nil
	}
	return j.found(d.raisePeak(peak{used: used}))
}

// readPeaks sets the peaks. Before the first sample only the kernel's own peak is known.
func (r *reader) readPeaks(u *Usage) {
	f := r.dir.memory()
	u.CgroupPeak = r.number(f.peak)
	p, found, err := r.dir.loadPeak()
	if err != nil && !gone(err) {
		r.errs = append(r.errs, err)
	}
	if !found {
		return
	}
	u.MemPeak = &p.used
	if u.CgroupPeak != nil {
		return
	}
	if now := r.number(f.current); now != nil {
		all := max(p.all, *now)
		u.CgroupPeak = &all
	}
}

func trim(b []byte) string { return strings.TrimSpace(string(b)) }
