// Package cgrouptest makes the kernel do the same work for jobs as the cgroup hook does, but with
// system calls alone. Benchmarks compare the hook with that, because no program that uses the
// kernel this way can be faster.
package cgrouptest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Floor is the part of a job's cost that is the kernel's. Several goroutines may use a Floor, each
// for different jobs.
type Floor struct {
	parents  []string // of the jobs' directories, one for each hierarchy
	limits   []setting
	counters []setting // without text
	marks    map[string][]byte
}

// setting is a file of a job's directory below parents[at].
type setting struct {
	at         int
	file, text string
}

// limits are the files that the hook may write, of v1 and v2, in the order of the writes.
var limits = []string{
	"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.kmem.tcp.limit_in_bytes",
	"memory.max", "memory.swap.max", "cpuset.cpus", "cpuset.mems", "cpu.shares", "cpu.weight",
	"cpu.cfs_period_us", "cpu.cfs_quota_us", "cpu.max", "pids.max",
}

// counters are the files that the hook reads at a job's end.
var counters = []string{
	"cgroup.procs", "cpuacct.usage", "cpuacct.stat", "cpu.stat",
	"memory.stat", "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.memsw.max_usage_in_bytes",
	"memory.kmem.usage_in_bytes", "memory.kmem.max_usage_in_bytes",
	"memory.limit_in_bytes", "memory.memsw.limit_in_bytes",
	"memory.failcnt", "memory.memsw.failcnt", "memory.oom_control",
	"memory.current", "memory.peak", "memory.max", "memory.swap.max", "memory.swap.peak",
	"memory.events", "memory.swap.events", "pids.current", "pids.peak",
	"io.stat", "blkio.throttle.io_service_bytes_recursive",
	"cpu.pressure", "memory.pressure", "io.pressure",
}

// NewFloor finds out from a job that has begun where its directories are, what its limits are and
// how long its marks are. An example is 12.srv in the unit pbs_jobs.service.
func NewFloor(unit, id string) (*Floor, error) {
	f := &Floor{marks: map[string][]byte{}}
	for _, root := range []string{"/sys/fs/cgroup/*", "/sys/fs/cgroup"} {
		dirs, err := filepath.Glob(filepath.Join(root, unit, "job*", id))
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			f.parents = append(f.parents, filepath.Dir(dir))
		}
	}
	if len(f.parents) == 0 {
		return nil, fmt.Errorf("job %s has no cgroup in %s", id, unit)
	}
	for at, parent := range f.parents {
		dir := filepath.Join(parent, id)
		for _, file := range limits {
			b, err := os.ReadFile(filepath.Join(dir, file))
			text := strings.TrimSpace(string(b))
			if err == nil && isLimit(text) {
				f.limits = append(f.limits, setting{at, file, text})
			}
		}
		for _, file := range counters {
			if _, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
				f.counters = append(f.counters, setting{at: at, file: file})
			}
		}
		if err := f.addMarks(dir); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// isLimit reports whether a file's text is a limit that somebody has set.
func isLimit(text string) bool {
	const endless = "9223372036854771712"
	return text != "" && text != "-1" && text != endless && !strings.HasPrefix(text, "max")
}

// addMarks notes the marks of a job's directory. Only the directory in one hierarchy has marks.
func (f *Floor) addMarks(dir string) error {
	b := make([]byte, 64<<10)
	n, err := unix.Listxattr(dir, b)
	if err != nil && !errors.Is(err, unix.ENOTSUP) {
		return fmt.Errorf("list marks of %s: %w", dir, err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(b[:max(n, 0)]), "\x00"), "\x00") {
		if !strings.HasPrefix(name, "trusted.hookhost.") {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Getxattr(dir, name, value)
		if err != nil {
			return fmt.Errorf("read mark %s of %s: %w", name, dir, err)
		}
		f.marks[name] = value[:n]
	}
	return nil
}

// Begin makes a job's directories, sets its limits, reads each back and sets its marks.
func (f *Floor) Begin(id string) error {
	for _, parent := range f.parents {
		if err := uninterrupted(func() error { return unix.Mkdir(parent+"/"+id, 0o755) }); err != nil {
			return fmt.Errorf("mkdir %s/%s: %w", parent, id, err)
		}
	}
	for _, s := range f.limits {
		file := f.parents[s.at] + "/" + id + "/" + s.file
		if err := write(file, s.text); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
		if err := read(file); err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
	}
	for name, value := range f.marks {
		if err := unix.Setxattr(f.parents[f.home()]+"/"+id, name, value, 0); err != nil {
			return fmt.Errorf("set mark %s: %w", name, err)
		}
	}
	return nil
}

// home is the index of the hierarchy with the marks, which is memory's.
func (f *Floor) home() int {
	for _, s := range f.limits {
		if strings.HasPrefix(s.file, "memory.") {
			return s.at
		}
	}
	return 0
}

// Measure reads a job's counters and its marks.
func (f *Floor) Measure(id string) error {
	for _, s := range f.counters {
		if err := read(f.parents[s.at] + "/" + id + "/" + s.file); err != nil {
			return fmt.Errorf("read %s of %s: %w", s.file, id, err)
		}
	}
	var value [4 << 10]byte
	for name := range f.marks {
		if _, err := unix.Getxattr(f.parents[f.home()]+"/"+id, name, value[:]); err != nil {
			return fmt.Errorf("read mark %s: %w", name, err)
		}
	}
	return nil
}

// End removes as many of a job's directories as it can.
func (f *Floor) End(id string) error {
	var errs []error
	for _, parent := range f.parents {
		err := uninterrupted(func() error { return unix.Rmdir(parent + "/" + id) })
		if err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("rmdir %s/%s: %w", parent, id, err))
		}
	}
	return errors.Join(errs...)
}

// Cycle runs through a job's whole life. It removes the job's directories even if a step fails.
func (f *Floor) Cycle(id string) error {
	err := f.Begin(id)
	if err == nil {
		err = f.Measure(id)
	}
	return errors.Join(err, f.End(id))
}

// uninterrupted repeats a system call if a signal has interrupted it, such as one of the Go
// runtime.
func uninterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func read(file string) error {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var text [4 << 10]byte
	return uninterrupted(func() error { _, err := unix.Read(fd, text[:]); return err })
}

// write writes a limit. A signal, such as one of the Go runtime, can interrupt writing a memory
// limit (mem_cgroup_resize_max).
func write(file, text string) error {
	fd, err := unix.Open(file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return uninterrupted(func() error { _, err := unix.Write(fd, []byte(text)); return err })
}
