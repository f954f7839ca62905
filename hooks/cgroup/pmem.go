package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
	"github.com/hookhost/hookhost/internal/sample"
)

var pmemResource = resource{
	ask: func(a *ask, job *hostapi.Job) (err error) {
		if a.pmem, err = sizeAsked(job, "pmem"); err != nil {
			return err
		}
		a.pvmem, err = sizeAsked(job, "pvmem")
		return err
	},
}

// processSampler samples the processes of a job with pmem or pvmem, by /proc. On nodes without a
// memory controller it also samples mem. It sleeps until a resize if the job has no such bounds.
type processSampler struct {
	*follower
	last   memAmounts // of the previous sample
	failed bool       // a sample failed, and that has been logged
	shares *shares    // that are being read; nil if none are
	below  bool       // the job has held less than its bound since shares was begun
}

// perSample limits sampling to a twentieth of a cpu, because a job may have thousands of processes.
// Each pause is at least this many times as long as the sample before it. If shares were read in
// the background for it, their cpu time is added.
const perSample = 20

// Sample is called by the beat.
func (s *processSampler) Sample() sample.Next {
	b := s.h.boundsNow(s.j)
	if s.h.tree.Has("memory") {
		b.mem = 0 // Watch samples it
	}
	if b == (memAmounts{}) {
		return sample.Asleep
	}
	start, shares := time.Now(), s.shares
	now, known, err := s.read(b)
	switch {
	case errors.Is(err, cgroup.ErrNotFound):
		return sample.Asleep
	case err != nil && !s.failed:
		s.h.logOf(s.j.ID()).Warn(err)
	}
	s.failed = err != nil
	spent := time.Since(start)
	if shares != nil && s.shares == nil { // they are in this sample
		spent += shares.spent
	}
	pause := max(s.compareAll(now, b, known), perSample*spent)
	return sample.Next{After: pause - pause/4, Slack: pause / 4}
}

// compareAll compares a sample with the bounds, and returns the longest pause until the next one.
// Until it calls execve(2), a vfork child has the memory of its parent, which may be hookhost. So a
// value counts only if two samples in a row show it. Samples in which mem is not known do not count
// for mem.
func (s *processSampler) compareAll(now, b memAmounts, known bool) time.Duration {
	last := s.last
	if !known {
		now.mem, b.mem = last.mem, 0
	}
	s.last = now
	pause := usualPause
	for _, c := range []struct {
		what             string
		now, last, bound int64
	}{
		{"mem", now.mem, last.mem, b.mem},
		{"pmem", now.pmem, last.pmem, b.pmem},
		{"pvmem", now.pvmem, last.pvmem, b.pvmem},
	} {
		s.compare(c.what, min(c.now, c.last), c.bound)
		pause = min(pause, pauseAt(c.now, c.bound))
	}
	return pause
}

// read reads only what is needed for the bounds. known is false while the shares for mem are being
// read.
func (s *processSampler) read(b memAmounts) (now memAmounts, known bool, err error) {
	pids, err := s.j.Processes()
	if err != nil {
		return now, true, err
	}
	all, err := footprintOf(s.h.roots.Proc, pids)
	if err != nil {
		return now, true, err
	}
	now.pmem, now.pvmem, known = all.largest, all.widest, true
	if b.mem > 0 {
		now.mem, known, err = s.held(all, b.mem)
	}
	return now, known, err
}

// footprint is the memory of processes in bytes, as /proc reports it (proc_pid_statm(5)). It
// includes pages of programs and libraries. Shared pages count once for each process that shares
// them.
type footprint struct {
	dirs            []string // of the processes that have memory: see proc.Running
	resident        int64    // of all processes
	largest, widest int64    // the largest resident set and address space of a single process
}

var pageSize = int64(os.Getpagesize())

// footprintOf reads one line per process. Processes that end meanwhile do not count.
func footprintOf(procfs *kernfs.FS, pids []int) (footprint, error) {
	var f footprint
	for _, pid := range pids {
		dir := strconv.Itoa(pid)
		size, resident, err := statm(procfs, dir)
		if err == nil && size == 0 { // its first thread has ended, or all have
			if dir, err = proc.Running(procfs, pid); errors.Is(err, proc.ErrGone) {
				continue
			}
			if err == nil {
				size, resident, err = statm(procfs, dir)
			}
		}
		if err != nil {
			return f, err
		}
		f.dirs = append(f.dirs, dir)
		f.resident += resident
		f.largest, f.widest = max(f.largest, resident), max(f.widest, size)
	}
	return f, nil
}

// statm returns the address space and the resident set of a process, given its directory, in bytes.
// Both are 0 if it has ended.
func statm(procfs *kernfs.FS, dir string) (size, resident int64, err error) {
	b, err := readOf(procfs, dir, "statm")
	if err != nil {
		return 0, 0, err
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0, 0, nil
	}
	size, err = strconv.ParseInt(string(fields[0]), 10, 64)
	resident, err2 := strconv.ParseInt(string(fields[1]), 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return 0, 0, fmt.Errorf("statm of process %s: %w", dir, err)
	}
	return size * pageSize, resident * pageSize, nil
}

// sumOf adds up the values of the keys, in kB, in a file of each process.
func sumOf(procfs *kernfs.FS, dirs []string, file string, keys ...string) (int64, error) {
	var sum int64
	for _, dir := range dirs {
		b, err := readOf(procfs, dir, file)
		if err != nil {
			return 0, err
		}
		for line := range bytes.Lines(b) {
			for _, key := range keys {
				if value, ok := bytes.CutPrefix(line, []byte(key)); ok {
					value = bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(value), []byte("kB")))
					kb, err := strconv.ParseInt(string(value), 10, 64)
					if err != nil {
						return 0, fmt.Errorf("%s of process %s: %w", file, dir, err)
					}
					sum += kb << 10
				}
			}
		}
	}
	return sum, nil
}

// readOf reads a file of a process. It returns nil if the process is gone or the kernel has no such
// file.
func readOf(procfs *kernfs.FS, dir, file string) ([]byte, error) {
	b, err := procfs.ReadFile(dir + "/" + file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	return b, err
}
