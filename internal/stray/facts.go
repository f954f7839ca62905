// Package stray finds out which processes outside every job belong to one.
//
// Read collects facts about a process from /proc, and Match decides from these alone. In doubt, a
// process does not belong to a job, because it would be killed with the job, and it may be
// somebody's login. The name of a process and its environment do not prove where it comes from. Its
// uid, its cgroup and the files that it and its ancestors execute do.
//
// The package reads /proc/PID/{stat,status,cgroup,loginuid,environ,exe} (proc_pid_stat(5) and its
// neighbours), and changes nothing.
package stray

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

// Facts are the facts about a process.
type Facts struct {
	proc.Process
	In     string        // the job whose cgroup it is in; "" for none
	JobID  string        // PBS_JOBID of its environment; "" unless that is a job id
	Chain  []Relative    // its ancestors, the parent first
	Leader *Relative     // of its session; nil if that is itself, is gone or is not visible
	Cgroup string        // /proc/PID/cgroup
	Ours   bool          // it executes hookhost
	Qsub   bool          // it executes qsub
	Exe    kernfs.FileID // that it executes; zero if unknown
	Age    time.Duration
	// NoLogin means that it does not come from a login: the kernel's audit has no login uid for it.
	// Logins and users' systemd set one (pam_loginuid). Children inherit it, and users cannot unset
	// it.
	NoLogin bool
}

// Relative is an ancestor of a process, or the leader of its session.
type Relative struct {
	PID     int
	UID     int           // real
	Program string        // the name of the file that it executes; set only for root's processes
	Exe     kernfs.FileID // that file, likewise
	Ours    bool          // it is one of hookhost's, likewise
	In      string        // the job whose cgroup it is in, if it has the same user; "" for none
}

// Reader reads facts.
type Reader struct {
	Procfs   *kernfs.FS
	JobOf    func(pid int) (id string, ok bool, err error) // in which job's cgroup a process is: cgroup.Tree.JobOf
	Environ  func(uid, pid int) ([]byte, error)            // without waiting for it: proc.Environs
	Hookhost []kernfs.FileID                               // hookhost's programs
	Qsub     []kernfs.FileID                               // PBS's qsub
}

// noLogin is the login uid of a process that does not come from a login: -1.
const noLogin = "4294967295"

// maxChain bounds the number of ancestors that are read.
const maxChain = 64

// Read collects the facts of p, which the caller has just read. Read fails with proc.ErrGone if the
// process is gone, or if its pid or its user has changed meanwhile.
func (r *Reader) Read(p proc.Process) (Facts, error) {
	procfs, jobOf := r.Procfs, r.JobOf
	f := Facts{Process: p, Age: proc.Age(p.StartTime)}
	fail := func(err error) (Facts, error) { return Facts{}, fmt.Errorf("look at process %d: %w", p.PID, err) }
	var err error
	if f.In, _, err = jobOf(p.PID); err != nil {
		return fail(err)
	}
	dir, err := proc.Running(procfs, p.PID)
	if err != nil {
		return fail(err)
	}
	b, err := procfs.ReadFile(dir + "/cgroup")
	if err != nil {
		return fail(gone(err))
	}
	f.Cgroup = string(b)
	if b, err = procfs.ReadFile(dir + "/loginuid"); err == nil { // a kernel without audit has no such file
		f.NoLogin = strings.TrimSpace(string(b)) == noLogin
	}
	variables, err := r.Environ(p.UID, p.PID)
	if err != nil && !errors.Is(err, proc.ErrHangs) { // a process that hangs on purpose hides only its environment
		return fail(err)
	}
	if id, _ := proc.Getenv(variables, "PBS_JOBID"); hostapi.CheckJobID(id) == nil {
		f.JobID = id
	}
	relative := func(parent proc.Process) (of Relative, err error) {
		of = Relative{PID: parent.PID, UID: parent.UID}
		switch parent.UID {
		case 0:
			of.Program, of.Exe = program(procfs, parent.PID)
			of.Ours = slices.Contains(r.Hookhost, of.Exe)
		case p.UID:
			of.In, _, err = jobOf(parent.PID)
		}
		return of, err
	}
	for child := p; child.PPID > 0 && len(f.Chain) < maxChain; {
		parent, err := proc.Read(procfs, child.PPID)
		// it died, and its pid was reused
		if errors.Is(err, proc.ErrGone) || err == nil && parent.StartTime > child.StartTime {
			break
		}
		if err != nil {
			return fail(err)
		}
		of, err := relative(parent)
		if err != nil {
			return fail(err)
		}
		f.Chain = append(f.Chain, of)
		child = parent
	}
	if p.Session > 0 && p.Session != p.PID {
		leader, err := proc.Read(procfs, p.Session)
		switch {
		case errors.Is(err, proc.ErrGone), err == nil && leader.Dead():
		case err != nil:
			return fail(err)
		default:
			of, err := relative(leader)
			if err != nil {
				return fail(err)
			}
			f.Leader = &of
		}
	}
	// A user's file system may not show the file. Then it exempts the process from nothing.
	f.Exe, _ = procfs.Executable(p.PID)
	f.Ours, f.Qsub = slices.Contains(r.Hookhost, f.Exe), slices.Contains(r.Qsub, f.Exe)
	now, err := proc.Read(procfs, p.PID)
	if err == nil && (now.StartTime != p.StartTime || now.UID != p.UID || now.Dead()) {
		err = proc.ErrGone
	}
	if err != nil {
		return fail(err)
	}
	return f, nil
}

// program returns the file that a process of root executes. The kernel gives its name, even if the
// file was replaced since.
func program(procfs *kernfs.FS, pid int) (name string, file kernfs.FileID) {
	target, err := procfs.Readlink(strconv.Itoa(pid) + "/exe")
	if err != nil { // a kernel thread has none
		return "", kernfs.FileID{}
	}
	file, _ = procfs.Executable(pid)
	return path.Base(strings.TrimSuffix(target, " (deleted)")), file
}

// gone returns proc.ErrGone if the error of a file in /proc/PID means that.
func gone(err error) error {
	if ignoreGone(err) == nil {
		return fmt.Errorf("%w: %w", proc.ErrGone, err)
	}
	return err
}

// ignoreGone ignores the errnos that mean that a process is gone.
func ignoreGone(err error) error {
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
