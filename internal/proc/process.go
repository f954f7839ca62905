// Package proc identifies, starts, waits for and signals processes.
//
// A pid alone does not identify a process, because it is reused after the process was waited for.
// So everything here uses the pid and the start time (/proc/PID/stat field 22, clock ticks since
// boot), and across reboots also the boot id. Other processes than children are signalled through a
// pidfd that was opened before that identity was checked.
//
// The package reads /proc/PID and its threads (proc(5)), and /proc/sys/kernel/random/boot_id. It
// knows nothing about cgroups or jobs, and does not decide who may do what.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// ErrGone means that the process no longer exists, or that its pid now refers to another one.
var ErrGone = errors.New("process is gone")

// Process is a snapshot of a process from the kernel.
type Process struct {
	PID int
	// the process's pid if PID is one of its threads; else PID, or 0 if not read
	Leader    int
	StartTime uint64 // clock ticks since boot
	PPID      int
	PGRP      int
	Session   int // 0: begun outside the pid namespace of this /proc, or a kernel thread
	TTY       int // number of its controlling terminal; 0 if it has none
	UID       int // real
	EUID      int
	GID       int // real
	Comm      string
	Kernel    bool // a kernel thread, which cannot be in a job's cgroup
	Exiting   bool // its first thread is ending or has ended; others may run on
	State     byte // as in ps: 'R', 'S', 'D', 'Z', ...

	CPU     time.Duration // user and system time of all its threads
	RSS     int64         // bytes
	Threads int
}

// Dead reports whether the process was a zombie or already past that. A process whose first thread
// alone has ended has the state of a zombie, but more threads.
func (p Process) Dead() bool {
	return (p.State == 'Z' || p.State == 'X' || p.State == 'x') && p.Threads <= 1
}

// BelongsTo reports whether uid started the process: it compares the real uid, which does not
// change in a set-uid program.
func (p Process) BelongsTo(uid int) bool { return uid >= 0 && p.UID == uid }

// ID returns the identity of p, without a boot id, so for this boot.
func (p Process) ID() hostapi.ProcessID { return hostapi.ProcessID{PID: p.PID, StartTime: p.StartTime} }

// Read returns the process pid. It fails with ErrGone if there is none or if it disappears during
// the read.
//
// It reads both files through one open directory. procfs opens them by path, one after the other
// (proc.go:306), and between the two the pid may be reused.
func Read(procfs *kernfs.FS, pid int) (Process, error) {
	return read(procfs, strconv.Itoa(pid))
}

// read reads a directory of /proc, whose name is a pid or "self".
func read(procfs *kernfs.FS, dir string) (Process, error) {
	d, err := procfs.OpenDir(dir)
	if errors.Is(err, kernfs.ErrUnsupported) {
		return readByNumber(procfs, dir)
	}
	if err != nil {
		return Process{}, gone("read process "+dir, err)
	}
	defer d.Close()
	// The directory refers to one process even if its pid is reused, so both files belong to that
	// process.
	return readFrom(procfs, d.ReadFile, dir)
}

// readByNumber is read for file systems where a directory cannot be kept open.
func readByNumber(procfs *kernfs.FS, dir string) (Process, error) {
	p, err := readFrom(procfs, filesOf(procfs, dir), dir)
	if err != nil {
		return Process{}, err
	}
	// The pid may have been reused between the two files. One process must not get another's owner.
	again, err := readStat(procfs, dir)
	if err != nil {
		return Process{}, err
	}
	if again.StartTime != p.StartTime {
		return Process{}, fmt.Errorf("read process %s: %w", dir, ErrGone)
	}
	return p, nil
}

// reader reads a file of one process's directory.
type reader func(name string) ([]byte, error)

// filesOf reads by the name of the directory, which may refer to another process for the next file.
func filesOf(procfs *kernfs.FS, dir string) reader {
	return func(name string) ([]byte, error) { return procfs.ReadFile(dir + "/" + name) }
}

// readFrom reads both files of a process. dir is for errors.
func readFrom(procfs *kernfs.FS, file reader, dir string) (Process, error) {
	p, err := statFrom(procfs, file, dir)
	if err != nil {
		return Process{}, err
	}
	b, err := file("status")
	if err != nil {
		return Process{}, gone("read process "+dir, err)
	}
	if err := p.parseStatus(b); err != nil {
		return Process{}, &kernfs.ParseError{File: procfs.Path(dir + "/status"), Text: snippet(b), Err: err}
	}
	return p, nil
}

// readStat returns what /proc/PID/stat contains: everything except the owner.
func readStat(procfs *kernfs.FS, dir string) (Process, error) {
	return statFrom(procfs, filesOf(procfs, dir), dir)
}

func statFrom(procfs *kernfs.FS, file reader, dir string) (Process, error) {
	b, err := file("stat")
	if err != nil {
		return Process{}, gone("read process "+dir, err)
	}
	p, err := parseStat(b)
	if err != nil {
		return Process{}, &kernfs.ParseError{File: procfs.Path(dir + "/stat"), Text: snippet(b), Err: err}
	}
	return p, nil
}

// gone turns the two errnos for a missing process into ErrGone: ENOENT from opening, ESRCH from
// reading a file that was opened in time.
func gone(op string, err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("%s: %w", op, ErrGone)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// Fields of /proc/PID/stat, counted from the one after comm.
const (
	statState     = 0
	statPPID      = 1
	statPGRP      = 2
	statSession   = 3
	statTTY       = 4
	statFlags     = 6
	statUser      = 11
	statSystem    = 12
	statThreads   = 17
	statStartTime = 19
	statRSS       = 21
)

// Flags of a thread, PF_EXITING and PF_KTHREAD of include/linux/sched.h.
const (
	pfExiting = 0x00000004
	pfKthread = 0x00200000
)

// parseStat parses /proc/PID/stat. A process chooses its comm, which may contain spaces, newlines
// and parentheses. So the fields are counted after the last ')'.
func parseStat(b []byte) (Process, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return Process{}, errors.New("no command in parentheses")
	}
	var fields [statRSS + 1][]byte
	n := 0
	for field := range bytes.FieldsSeq(b[end+1:]) {
		if fields[n] = field; n == statRSS {
			break
		}
		n++
	}
	if n < statRSS {
		return Process{}, fmt.Errorf("%d fields after the command, want more than %d", n, statRSS)
	}
	if len(fields[statState]) != 1 {
		return Process{}, fmt.Errorf("state %q: not one letter", fields[statState])
	}
	p := Process{Comm: string(b[open+1 : end]), State: fields[statState][0]}
	for _, f := range []struct {
		to   *int
		text []byte
	}{
		{&p.PID, bytes.TrimSpace(b[:open])}, {&p.PPID, fields[statPPID]},
		{&p.PGRP, fields[statPGRP]}, {&p.Session, fields[statSession]}, {&p.TTY, fields[statTTY]},
		{&p.Threads, fields[statThreads]},
	} {
		n, err := strconv.ParseInt(string(f.text), 10, 32)
		if err != nil {
			return Process{}, err
		}
		*f.to = int(n)
	}
	var flags, user, system, pages uint64
	for _, f := range []struct {
		to *uint64
		at int
	}{{&flags, statFlags}, {&user, statUser}, {&system, statSystem}, {&p.StartTime, statStartTime}, {&pages, statRSS}} {
		var err error
		if *f.to, err = strconv.ParseUint(string(fields[f.at]), 10, 64); err != nil {
			return Process{}, err
		}
	}
	p.Kernel, p.Exiting = flags&pfKthread != 0, flags&pfExiting != 0
	p.CPU = time.Duration(user+system) * (time.Second / ticks)
	p.RSS = int64(pages) * int64(os.Getpagesize())
	return p, nil
}

// parseStatus reads the owner from /proc/PID/status ("Uid:\treal\teffective\tsaved\tfs"). Both
// lines are required, so that a missing owner is not taken for root.
func (p *Process) parseStatus(b []byte) error {
	var tgid, uid, gid []byte
	for line := range bytes.Lines(b) {
		if v, ok := bytes.CutPrefix(line, []byte("Tgid:")); ok {
			tgid = bytes.TrimSpace(v)
		} else if v, ok := bytes.CutPrefix(line, []byte("Uid:")); ok {
			uid = v
		} else if v, ok := bytes.CutPrefix(line, []byte("Gid:")); ok {
			gid = v
			break
		}
	}
	uid, euid := firstTwo(uid)
	gid, egid := firstTwo(gid)
	if euid == nil || egid == nil {
		return errors.New("no Uid or Gid line")
	}
	if tgid == nil { // not from a real kernel
		tgid = []byte("0")
	}
	for _, f := range []struct {
		to   *int
		text []byte
	}{{&p.Leader, tgid}, {&p.UID, uid}, {&p.EUID, euid}, {&p.GID, gid}} {
		n, err := strconv.ParseUint(string(f.text), 10, 32)
		if err != nil {
			return err
		}
		*f.to = int(n)
	}
	return nil
}

// firstTwo returns the first two words of a line, or nil for missing ones.
func firstTwo(line []byte) (first, second []byte) {
	for word := range bytes.FieldsSeq(line) {
		if first != nil {
			return first, word
		}
		first = word
	}
	return first, nil
}

// snippet limits how much of a file appears in an error.
func snippet(b []byte) string { return string(b[:min(len(b), 200)]) }
