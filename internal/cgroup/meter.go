package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Reading is what a job is using and has used, including processes that have ended. NaN means that
// this kernel does not provide the value.
type Reading struct {
	CPU float64 // seconds of cpu time so far

	RSS, Cache float64 // current bytes: anonymous and shared memory, page cache of files
	Pids       float64 // current tasks, including threads

	// ReadBytes and WriteBytes are totals over all block devices. If a device is on top of another,
	// such as a logical volume, both count, so the bytes appear twice.
	ReadBytes, WriteBytes float64

	// The pressures are the total seconds in which any task waited (accounting/psi.rst).
	CPUPressure, MemoryPressure, IOPressure float64
}

// nothing is a Reading without any values.
var nothing = func() Reading {
	n := math.NaN()
	return Reading{n, n, n, n, n, n, n, n, n}
}()

// Meter reads a job's counters repeatedly. It keeps the files open, and a reading does not allocate
// memory. Only one goroutine may use a Meter at a time.
//
// Stat of containerd/cgroups reads every file and returns 0 for a missing counter.
type Meter struct {
	job   *Job
	files []meterFile
	now   Reading
}

// meterFile is a file of the job and its parser.
type meterFile struct {
	*kernfs.Reader
	parse func(text []byte) error
}

// Meter returns a meter of the job. It does not access any file.
func (j *Job) Meter() *Meter {
	m := &Meter{job: j}
	if d, ok := j.with("memory"); ok {
		f := d.memory()
		m.add(d, f.stat, func(text []byte) error { return m.memory(f, text) })
	}
	if d, ok := j.with("pids"); ok {
		m.add(d, "pids.current", func(text []byte) error { return parseNumber(&m.now.Pids, text, 1) })
	}
	v2, hasV2 := j.v2()
	if d, ok := j.with("cpuacct"); ok {
		m.add(d, cpuacctUsage, func(text []byte) error { return parseNumber(&m.now.CPU, text, 1e9) })
	} else if hasV2 {
		m.add(v2, cpuStat, m.cpu)
	}
	if d, ok := j.with("io"); ok && d.h.v2 {
		m.add(d, "io.stat", m.io)
	} else if d, ok := j.with("blkio"); ok && !d.h.v2 {
		m.add(d, "blkio.throttle.io_service_bytes_recursive", m.blkio)
	}
	if hasV2 {
		for file, to := range map[string]*float64{
			"cpu.pressure": &m.now.CPUPressure, "memory.pressure": &m.now.MemoryPressure,
			"io.pressure": &m.now.IOPressure,
		} {
			m.add(v2, file, func(text []byte) error { return parseSome(to, text) })
		}
	}
	return m
}

func (m *Meter) add(d directory, file string, parse func([]byte) error) {
	m.files = append(m.files, meterFile{d.Reader(file), parse})
}

// Read reads what the job is using now. It fails with ErrNotFound if the job has no cgroup. With
// any other error, the values that could be read are still returned.
func (m *Meter) Read() (Reading, error) {
	m.now = nothing
	found, missing := false, false
	var errs []error
	for i := range m.files {
		switch err := m.files[i].View(m.files[i].parse); {
		case err == nil:
			found = true
		case gone(err), errors.Is(err, unix.EOPNOTSUPP): // EOPNOTSUPP with psi=0 on older kernels
			m.files[i].Reader, missing = nil, true
		default:
			errs = append(errs, err)
		}
	}
	if !found && !m.job.Exists() {
		return nothing, fmt.Errorf("reading of job %s: %w", m.job.id, ErrNotFound)
	}
	if missing { // they stay missing as long as the cgroup exists
		m.files = slices.DeleteFunc(m.files, func(f meterFile) bool { return f.Reader == nil })
	}
	if err := errors.Join(errs...); err != nil {
		return m.now, fmt.Errorf("reading of job %s: %w", m.job.id, err)
	}
	return m.now, nil
}

// Close closes the files. The next reading opens them again.
func (m *Meter) Close() error {
	var errs []error
	for _, f := range m.files {
		if f.Reader != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

func (m *Meter) memory(f *memoryFiles, text []byte) error {
	anon, shmem, file := math.NaN(), math.NaN(), math.NaN()
	err := eachKey(text, func(key, value []byte) error {
		switch string(key) {
		case f.anon:
			return parseNumber(&anon, value, 1)
		case f.shmem:
			return parseNumber(&shmem, value, 1)
		case f.file:
			return parseNumber(&file, value, 1)
		}
		return nil
	})
	m.now.RSS, m.now.Cache = anon, file
	if !math.IsNaN(shmem) { // v1 before Linux 4.13 does not count it
		m.now.RSS += shmem
		m.now.Cache = max(0, file-shmem) // the kernel's page cache includes shared memory
	}
	return err
}

func (m *Meter) cpu(text []byte) error {
	return eachKey(text, func(key, value []byte) error {
		if string(key) == "usage_usec" {
			return parseNumber(&m.now.CPU, value, 1e6)
		}
		return nil
	})
}

// io parses lines such as "8:0 rbytes=4096 wbytes=0 rios=1". If the file has no lines, the job has
// done no I/O.
func (m *Meter) io(text []byte) error {
	m.now.ReadBytes, m.now.WriteBytes = 0, 0
	return eachKey(text, func(_, words []byte) error {
		for len(words) > 0 {
			var word []byte
			word, words, _ = bytes.Cut(words, []byte{' '})
			key, value, _ := bytes.Cut(word, []byte{'='})
			if err := m.addIO(string(key) == "rbytes", string(key) == "wbytes", value); err != nil {
				return err
			}
		}
		return nil
	})
}

// blkio parses lines such as "8:0 Read 4096". Newer kernels count a device only after somebody has
// set a limit for it (blk_throtl_init), and otherwise show a total of 0. So if no device is listed,
// the values are unknown.
func (m *Meter) blkio(text []byte) error {
	return eachKey(text, func(_, rest []byte) error {
		key, value, counted := bytes.Cut(rest, []byte{' '})
		if counted && math.IsNaN(m.now.ReadBytes) {
			m.now.ReadBytes, m.now.WriteBytes = 0, 0
		}
		return m.addIO(string(key) == "Read", string(key) == "Write", value)
	})
}

func (m *Meter) addIO(read, write bool, value []byte) error {
	if !read && !write {
		return nil
	}
	var n float64
	if err := parseNumber(&n, value, 1); err != nil {
		return err
	}
	if read {
		m.now.ReadBytes += n
	} else {
		m.now.WriteBytes += n
	}
	return nil
}

// eachKey calls see with the first word and the rest of each line.
func eachKey(text []byte, see func(key, rest []byte) error) error {
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		key, rest, _ := bytes.Cut(line, []byte{' '})
		if err := see(key, rest); err != nil {
			return fmt.Errorf("line %q: %w", line, err)
		}
	}
	return nil
}

// parseSome parses the total of the line "some avg10=0.00 avg60=0.00 avg300=0.00 total=12", in
// microseconds.
func parseSome(to *float64, text []byte) error {
	return eachKey(text, func(key, rest []byte) error {
		if string(key) != "some" {
			return nil
		}
		_, total, _ := bytes.Cut(rest, []byte("total="))
		total, _, _ = bytes.Cut(total, []byte{' '})
		return parseNumber(to, total, 1e6)
	})
}

// parseNumber parses a whole number and divides it by unit.
func parseNumber(to *float64, text []byte, unit float64) error {
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return err
	}
	*to = float64(n) / unit
	return nil
}
