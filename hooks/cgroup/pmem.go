package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// footprint is the memory of processes in bytes, as /proc reports it (proc_pid_statm(5)). It
// includes pages of programs and libraries. Pages that several processes share count once for each.
type footprint struct {
	resident        int64 // of all
	largest, widest int64 // the largest resident set and address space of a single process
}

var pageSize = int64(os.Getpagesize())

// footprintOf reads one line per process. Processes that end meanwhile count as nothing.
func footprintOf(procfs *kernfs.FS, pids []int) (footprint, error) {
	var f footprint
	for _, pid := range pids {
		b, err := readOf(procfs, pid, "statm")
		if err != nil || b == nil {
			if err != nil {
				return f, err
			}
			continue
		}
		fields := bytes.Fields(b)
		if len(fields) < 2 {
			continue
		}
		size, err := strconv.ParseInt(string(fields[0]), 10, 64)
		resident, err2 := strconv.ParseInt(string(fields[1]), 10, 64)
		if err := errors.Join(err, err2); err != nil {
			return f, fmt.Errorf("statm of process %d: %w", pid, err)
		}
		f.resident += resident * pageSize
		f.largest, f.widest = max(f.largest, resident*pageSize), max(f.widest, size*pageSize)
	}
	return f, nil
}

// heldByProcesses returns the anonymous and shared memory of processes, on nodes without a memory
// controller. It reads the cheapest figure first, and stops as soon as one shows that they hold no
// more than enough. The first figure is all resident memory. The second is anonymous and shared
// memory, where shared pages count for each process. The last is each process's proportional share,
// for which the kernel walks every page table.
func heldByProcesses(procfs *kernfs.FS, pids []int, all footprint, enough int64) (cgroup.Resident, error) {
	if all.resident <= enough {
		return cgroup.Resident{Used: all.resident}, nil
	}
	sum, err := sumOf(procfs, pids, "status", "RssAnon:", "RssShmem:")
	if err == nil && sum > enough {
		var shares int64
		shares, err = sumOf(procfs, pids, "smaps_rollup", "Pss_Anon:", "Pss_Shmem:") // since Linux 5.4
		if shares > 0 {
			sum = shares
		}
	}
	return cgroup.Resident{Used: sum, Exact: true, Seen: sum}, err
}

// sumOf adds up the values of the keys, in kB, in a file of each process.
func sumOf(procfs *kernfs.FS, pids []int, file string, keys ...string) (int64, error) {
	var sum int64
	for _, pid := range pids {
		b, err := readOf(procfs, pid, file)
		if err != nil {
			return 0, err
		}
		for line := range bytes.Lines(b) {
			for _, key := range keys {
				if value, ok := bytes.CutPrefix(line, []byte(key)); ok {
					value = bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(value), []byte("kB")))
					kb, err := strconv.ParseInt(string(value), 10, 64)
					if err != nil {
						return 0, fmt.Errorf("%s of process %d: %w", file, pid, err)
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
func readOf(procfs *kernfs.FS, pid int, file string) ([]byte, error) {
	b, err := procfs.ReadFile(strconv.Itoa(pid) + "/" + file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	return b, err
}
