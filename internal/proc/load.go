package proc

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Load is what a process has used of the machine, at one moment.
type Load struct {
	CPU     time.Duration // user and system time of all its threads
	RSS     int64         // bytes
	Threads int
}

// userHZ is the unit of times in /proc/PID/stat, a part of the kernel's interface on every
// architecture that Go runs on.
const userHZ = 100

// Fields of /proc/PID/stat, counted from the one after comm.
const (
	statUser    = 11
	statSystem  = 12
	statThreads = 17
	statRSS     = 21
)

// ReadLoad returns the load of the process p, which Read has returned. ReadLoad fails with ErrGone
// when p has ended.
//
// Only the file stat is read. A process can make readers of its command line wait, since its
// memory may be a file of its own making.
func ReadLoad(procfs *kernfs.FS, p Process) (Load, error) {
	name := strconv.Itoa(p.PID) + "/stat"
	b, err := procfs.ReadFile(name)
	if err != nil {
		return Load{}, gone("read process "+strconv.Itoa(p.PID), err)
	}
	start, l, err := parseLoad(b)
	if err != nil {
		return Load{}, &kernfs.ParseError{File: procfs.Path(name), Text: snippet(b), Err: err}
	}
	if start != p.StartTime {
		return Load{}, ErrGone
	}
	return l, nil
}

func parseLoad(b []byte) (start uint64, l Load, err error) {
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) <= statRSS {
		return 0, Load{}, errors.New("too few fields")
	}
	var user, system, threads, pages uint64
	for _, f := range []struct {
		to *uint64
		at int
	}{
		{&user, statUser}, {&system, statSystem}, {&threads, statThreads},
		{&start, statStartTime}, {&pages, statRSS},
	} {
		if *f.to, err = strconv.ParseUint(string(fields[f.at]), 10, 63); err != nil {
			return 0, Load{}, err
		}
	}
	l.CPU = time.Duration(user+system) * (time.Second / userHZ)
	l.Threads, l.RSS = int(threads), int64(pages)*int64(os.Getpagesize())
	return start, l, nil
}
