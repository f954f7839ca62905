// Package stray tells which processes outside of every job belong to one all the same.
//
// Read collects what /proc says of a process, Match decides from that alone. A process that is in
// doubt is never a job's. A process that becomes a job's is killed with the job, and it may be
// somebody's login. The name of a process and its environment prove nothing of where it comes from.
// Its uid, its cgroup and the files that it and its ancestors execute do.
//
// The package reads /proc/PID/{stat,status,cgroup,environ,exe} (proc_pid_stat(5) and its
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

// Facts are what is known of a process.
type Facts struct {
	proc.Process
	In     string        // the job whose cgroup it is in; "" for none
	JobID  string        // PBS_JOBID of its environment; "" unless that is a job id
	Chain  []Relative    // its ancestors, the parent first
	Leader *Relative     // of its session; nil when that is itself, is gone or is not to be seen
	Cgroup string        // /proc/PID/cgroup
	Ours   bool          // it executes hookhost
	Qsub   bool          // it executes qsub
	Exe    kernfs.FileID // that it executes
	Age    time.Duration
}

// Relative is an ancestor of a process, or the leader of its session.
type Relative struct {
	PID     int
	UID     int           // real
	Program string        // the name of the file that it executes; root's processes alone have one here
	Exe     kernfs.FileID // that file, likewise
	Ours    bool          // it is one of hookhost's, likewise
	In      string        // the job whose cgroup it is in, where it is of the same user; "" for none
}

// Reader reads facts.
type Reader struct {
	Procfs   *kernfs.FS
	JobOf    func(pid int) (id string, ok bool, err error) // in which job's cgroup a process is: cgroup.Tree.JobOf
	Environ  func(p proc.Process) ([]byte, error)          // without waiting for it: proc.Environs
	Hookhost []kernfs.FileID                               // hookhost's programs
	Qsub     []kernfs.FileID                               // PBS's qsub
}

// maxChain bounds the ancestors that are looked at.
const maxChain = 64

// Read collects the facts of p, which the caller has just read. Read fails with proc.ErrGone when
// the process is gone, or became another or another user's meanwhile.
func (r *Reader) Read(p proc.Process) (Facts, error) {
	procfs, jobOf := r.Procfs, r.JobOf
	f := Facts{Process: p, Age: proc.Age(p.StartTime)}
	fail := func(err error) (Facts, error) { return Facts{}, fmt.Errorf("look at process %d: %w", p.PID, err) }
	var err error
	if f.In, _, err = jobOf(p.PID); err != nil {
		return fail(err)
	}
	b, err := procfs.ReadFile(strconv.Itoa(p.PID) + "/cgroup")
	if err != nil {
		return fail(gone(err))
	}
	f.Cgroup = string(b)
	variables, err := r.Environ(p)
	if err != nil && !errors.Is(err, proc.ErrHangs) { // who hangs on purpose hides no more than that
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
		// it died, and its number was given away
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
	if f.Exe, err = procfs.Executable(p.PID); err != nil && ignoreGone(err) != nil && !errors.Is(err, syscall.EACCES) {
		return fail(err)
	}
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

// program returns what a process of root's executes. The name is the kernel's, also of a file that
// was replaced since.
func program(procfs *kernfs.FS, pid int) (name string, file kernfs.FileID) {
	target, err := procfs.Readlink(strconv.Itoa(pid) + "/exe")
	if err != nil { // a thread of the kernel's has none
		return "", kernfs.FileID{}
	}
	file, _ = procfs.Executable(pid)
	return path.Base(strings.TrimSuffix(target, " (deleted)")), file
}

// gone is proc.ErrGone where a file of /proc/PID says so.
func gone(err error) error {
	if ignoreGone(err) == nil {
		return fmt.Errorf("%w: %w", proc.ErrGone, err)
	}
	return err
}

// ignoreGone makes nothing of the errnos of a process that is no more.
func ignoreGone(err error) error {
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
