package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// openKmsg opens the kernel log at its oldest record. Each Read returns one record
// (Documentation/ABI/testing/dev-kmsg), and io.EOF after the newest. Reading consumes nothing: each
// reader has its own position.
func openKmsg() (io.ReadCloser, error) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/kmsg", Err: err}
	}
	return kmsg(fd), nil
}

type kmsg int

func (k kmsg) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(int(k), b)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EPIPE):
			// EPIPE: the oldest records were overwritten. The next read continues after them.
		case errors.Is(err, unix.EAGAIN):
			return 0, io.EOF
		case err != nil:
			return 0, err
		default:
			return n, nil
		}
	}
}

func (k kmsg) Close() error { return unix.Close(int(k)) }

// oomKill describes one process that the kernel killed because memory ran out.
type oomKill struct {
	seq    uint64 // sequence number of its record in the log
	pid    int
	line   string // "Killed process 12 (python3) total-vm:..., UID:0 ..."
	ranks  []int  // the rank whose cgroup it was in, if ranks have cgroups
	global bool   // the host ran out of memory, not a cgroup
	parent bool   // the limit of the jobs' parent was hit
	inside bool   // a limit was hit that the job's owner has set below the job
	again  bool   // killed, counted and logged a second time, with the rest of its cgroup
}

// earliest returns the earliest time that the log can show for an event at since (both in µs since
// boot). The log's clock is not adjusted, while CLOCK_MONOTONIC may be slewed by up to 500 ppm
// (kernel/time/ntp.c, MAXFREQ).
func earliest(since int64) int64 { return since - since/2000 - 5_000_000 }

// oomLog is what has been read of the log so far. It holds the kills since the time since (µs since
// boot) in the memory cgroup path or below it, oldest first. The kernel may be in the middle of
// writing the records of a kill.
//
// The kernel writes two records per kill (mm/oom_kill.c), of which the first is rate limited:
//
//	oom-kill:constraint=...,oom_memcg=PATH,task_memcg=PATH,task=...,pid=N,uid=N
//	Memory cgroup out of memory: Killed process N (comm) ...
//
// With memory.oom.group they are followed by "Tasks in PATH are going to be killed ..." and the
// second record for each of these tasks. That includes the process that was killed first, unless it
// has released its memory already.
type oomLog struct {
	path  string
	since int64
	kills []oomKill

	pending map[int]oomKill // by pid: chosen but not killed yet
	group   bool            // the records that follow are about all processes of path
	grouped bool            // they were all killed together once, so no pid can have been reused
}

// read reads the log from the last position to its end.
func (l *oomLog) read(r io.Reader) error {
	buf := make([]byte, 8192) // the kernel's limit for a record
	for {
		n, err := r.Read(buf)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read kernel log: %w", err)
		}
		if seq, at, text, ok := parseKmsg(string(buf[:n])); ok && at >= earliest(l.since) {
			l.add(seq, text)
		}
	}
}

// killReasons are the ways in which the kernel's line about a kill can begin (mm/oom_kill.c).
var killReasons = []string{
	"Memory cgroup out of memory", "Out of memory", "Out of memory (oom_kill_allocating_task)",
}

func (l *oomLog) add(seq uint64, text string) {
	if strings.HasPrefix(text, "oom-kill:constraint=") {
		l.group = false
		if chosen, ok := parseSummary(text, l.path); ok {
			if l.pending == nil {
				l.pending = map[int]oomKill{}
			}
			l.pending[chosen.pid] = chosen
		}
		return
	}
	if in, ok := strings.CutPrefix(text, "Tasks in "); ok {
		l.group = strings.HasPrefix(in, l.path+" are going to be killed") || strings.HasPrefix(in, l.path+"/")
		l.grouped = l.grouped || l.group
		return
	}
	// Other kernel lines can contain the path, or the name of a user's program, some of them at the
	// beginning.
	why, line, ok := strings.Cut(text, ": Killed process ")
	if !ok || !slices.Contains(killReasons, why) {
		return
	}
	number, _, _ := strings.Cut(line, " ")
	pid, err := strconv.Atoi(number)
	chosen, ours := l.pending[pid]
	if err != nil || !ours && !l.group {
		return
	}
	again := l.grouped && slices.ContainsFunc(l.kills, func(k oomKill) bool { return k.pid == pid })
	delete(l.pending, pid)
	l.kills = append(l.kills, oomKill{seq: seq, again: again, pid: pid, line: "Killed process " + line,
		ranks: chosen.ranks, global: chosen.global, parent: chosen.parent, inside: chosen.inside})
}

// parseKmsg splits a record "level,sequence,µs,flags[,...];text\n[ KEY=value\n...]".
func parseKmsg(record string) (seq uint64, micros int64, text string, ok bool) {
	head, text, ok := strings.Cut(record, ";")
	if !ok {
		return 0, 0, "", false
	}
	fields := strings.Split(head, ",")
	if len(fields) < 3 {
		return 0, 0, "", false
	}
	seq, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return 0, 0, "", false
	}
	if micros, err = strconv.ParseInt(fields[2], 10, 64); err != nil {
		return 0, 0, "", false
	}
	text, _, _ = strings.Cut(text, "\n")
	return seq, micros, text, true
}

// parseSummary parses an oom-kill summary about a task in the cgroup path or below it. A task's
// name can contain anything, including commas and "pid=". So what follows the name is parsed from
// the end.
func parseSummary(text, path string) (chosen oomKill, ok bool) {
	rest, found := strings.CutPrefix(text, "oom-kill:constraint=")
	if !found {
		return oomKill{}, false
	}
	constraint, rest, _ := strings.Cut(rest, ",")
	memcg, rest, found := cutTask(rest)
	if !found {
		return oomKill{}, false
	}
	rest, found = strings.CutPrefix(rest, path)
	if !found || !strings.HasPrefix(rest, ",task=") && !strings.HasPrefix(rest, "/") {
		return oomKill{}, false
	}
	at := strings.LastIndex(rest, ",pid=")
	if at < 0 {
		return oomKill{}, false
	}
	below, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), ",task=")
	below, _, _ = strings.Cut(below, "/")
	if _, n, ok := parseGroupName(below); ok {
		chosen.ranks = []int{n}
	}
	number, _, _ := strings.Cut(rest[at+len(",pid="):], ",")
	pid, err := strconv.Atoi(number)
	chosen.pid, chosen.global = pid, constraint != "CONSTRAINT_MEMCG"
	chosen.inside = !chosen.global && strings.HasPrefix(memcg, path+"/")
	chosen.parent = !chosen.global && memcg != "" && memcg != path && !chosen.inside
	return chosen, err == nil
}

// cutTask splits the fields of a summary before the task's cgroup. memcg is the cgroup that ran out
// of memory, or "". A user can choose the names of cgroups in a delegated job. They can contain the
// same words, but the path of the task's cgroup always begins with that of memcg.
func cutTask(fields string) (memcg, rest string, ok bool) {
	const words = ",task_memcg="
	for at := 0; ; at += len(words) {
		i := strings.Index(fields[at:], words)
		if i < 0 {
			return "", "", false
		}
		at += i
		memcg, rest := memcgOf(fields[:at]), fields[at+len(words):]
		below, is := strings.CutPrefix(rest, strings.TrimSuffix(memcg, "/"))
		if memcg == "" || is && (strings.HasPrefix(below, "/") || strings.HasPrefix(below, ",")) {
			return memcg, rest, true
		}
	}
}

// memsAllowed ends the name of a cpuset, which can contain anything.
var memsAllowed = regexp.MustCompile(`,mems_allowed=[0-9,-]*,oom_memcg=`)

// memcgOf returns the cgroup that ran out of memory, or "", given the fields before the task's.
func memcgOf(fields string) string {
	_, memcg, _ := strings.Cut(","+fields, ",oom_memcg=")
	if at := memsAllowed.FindStringIndex(fields); at != nil && strings.HasPrefix(fields, "nodemask=") {
		memcg = fields[at[1]:]
	}
	return memcg
}
