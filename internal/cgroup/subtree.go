package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/proc"
)

// On v2, a job's owner can be given main (subgroup.go), which the job's processes enter:
//
//	12.server     root's; limits
//	├── main      the owner's; processes, or cgroups that the owner creates
//	│   └── ...
//	├── outer     root's; processes that could not enter main
//	└── rank.3    root's
//
// Then container runtimes, pilots and systemd can limit parts of the job. The owner gets the
// directory main and three of its files, as cgroup-v2.rst requires ("Delegation"). The limits and
// bounds of main stay root's, and so do all limits of the job. To move a process out of main, the
// owner would have to write to cgroup.procs of the job's directory (cgroup_procs_write_permission).
//
// The owner can hold the locks of main and of the directories in it for any time: see
// kernfs.Unlisted. So nothing here lists or changes these directories, or opens files below main,
// except for Remove. That waits no longer than its caller allows. Files of main itself can be
// opened meanwhile if they have been opened before: see Pin.

// outerGroup contains processes that came when the owner had passed controllers down from main, and
// those of ApartFromOwner. It exists only if there were any. No controllers are passed down from
// it, so it accepts processes.
const outerGroup = "outer"

// delegatedFiles are the files of main that its owner gets.
var delegatedFiles = []string{"cgroup.procs", "cgroup.subtree_control", "cgroup.threads"}

const maxDescendants = "cgroup.max.descendants"

// delegationBounds limit what an owner can create in main. With names of 255 bytes, the path of a
// cgroup at the greatest depth has 3,400 bytes at most. From 4,096 on, /proc/PID/cgroup could not
// be read (PATH_MAX). A cgroup uses kernel memory on every cpu, which counts for the job.
var delegationBounds = map[string]string{"cgroup.max.depth": "10", maxDescendants: "1000"}

// Delegates reports whether Delegate works on this node: it has cgroup v2 alone, and Linux 5.14.
// The parent of all jobs must exist.
func (t *Tree) Delegates() bool { return t.mode == ModeV2 && t.Has("kill") }

// Delegate gives main to the user uid, the job's owner. The job was prepared by Split and has no
// processes yet. Delegate fails with ErrUnsupported if Delegates is false. It is idempotent. After
// an error the job must not begin.
func (j *Job) Delegate(uid int) error {
	op := func(err error) error { return fmt.Errorf("delegate cgroup of job %s: %w", j.id, j.found(err)) }
	if !j.tree.Delegates() {
		return op(fmt.Errorf("needs cgroup v2 without v1 controllers, and cgroup.kill (Linux 5.14): %w",
			ErrUnsupported))
	}
	main, err := j.home().Sub(mainGroup)
	if err != nil {
		return op(err)
	}
	for file, value := range delegationBounds {
		if err := j.put(directory{FS: main, h: j.home().h}, &knob{file: file}, value, false); err != nil {
			return op(err)
		}
	}
	for _, name := range append(slices.Clone(delegatedFiles), ".") {
		if err := main.Chown(name, uid); err != nil {
			return op(err)
		}
	}
	return nil
}

// mainOwner returns the user that main was given to. ok is false if it is root's or does not exist.
func (j *Job) mainOwner() (uid int, ok bool) {
	if j.tree.mode != ModeV2 {
		return 0, false
	}
	st, err := j.home().Stat(mainGroup)
	return st.UID, err == nil && st.UID != 0
}

// delegated reports whether main belongs to a user.
func (j *Job) delegated() bool {
	_, ok := j.mainOwner()
	return ok
}

// walk calls do for one of the job's directories and for those below it, as directory.walk does.
// For a delegated job it calls do for the job's directory alone.
func (j *Job) walk(d directory, do func(directory) error) error {
	if d.h.v2 && j.delegated() {
		return do(d)
	}
	return d.walk(do)
}

// Pin makes sure that the lists of main's processes can always be opened, until unpin is called.
// The kernel finds a file that was opened before by its dentry, without the lock of the directory.
// But it frees dentries of files that are not open when memory is short. For a job that is not
// delegated, Pin does nothing, and unpin is nil.
func (j *Job) Pin() (unpin func(), err error) {
	if !j.delegated() {
		return nil, nil
	}
	var files []kernfs.File
	unpin = func() {
		for _, f := range files {
			f.Close()
		}
	}
	for _, name := range []string{"cgroup.procs", "cgroup.threads"} {
		f, err := j.home().OpenFile(mainGroup+"/"+name, os.O_RDONLY)
		if err != nil {
			unpin()
			return nil, fmt.Errorf("pin files of job %s: %w", j.id, j.found(err))
		}
		files = append(files, f)
	}
	return unpin, nil
}

// delegatedProcesses returns the processes of a delegated job.
func (j *Job) delegatedProcesses() ([]int, error) {
	d := j.home()
	groups := slices.DeleteFunc([]string{mainGroup, outerGroup}, func(name string) bool { return !d.Exists(name) })
	job, err := d.Stat(".")
	main, mainErr := d.Stat(mainGroup)
	if err := errors.Join(err, mainErr); err != nil {
		return nil, err
	}
	if main.Dirs > 0 || job.Dirs > len(groups) {
		return j.inProc()
	}
	var list []int
	for _, name := range groups {
		pids, err := j.tree.processes(d, name+"/")
		if err != nil && !gone(err) {
			return nil, err
		}
		list = append(list, pids...)
	}
	return list, nil
}

// inProc returns the processes of the job by reading /proc for each process of the node.
func (j *Job) inProc() ([]int, error) {
	pids, err := j.tree.proc.Numbers(".")
	if err != nil {
		return nil, err
	}
	var errs []error
	pids = slices.DeleteFunc(pids, func(pid int) bool {
		in, err := j.contains(pid)
		if err != nil {
			errs = append(errs, err)
		}
		if !in {
			return true
		}
		p, err := proc.Read(j.tree.proc, pid)
		return err != nil || p.Dead()
	})
	return pids, errors.Join(errs...)
}

// ApartFromOwner returns the same job in the form for processes of root's for which others wait,
// such as pbs_mom's task. In a delegated job they enter outer. The owner could freeze a process in
// main, whoever it belongs to.
func (j *Job) ApartFromOwner() *Job {
	apart := *j
	apart.apart = true
	return &apart
}

// outer returns outerGroup of a job's v2 directory. It creates it if necessary.
func (d directory) outer() (*kernfs.FS, error) {
	if err := d.Mkdir(outerGroup); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return d.Sub(outerGroup)
}

// admit moves a process to where the job's processes enter hierarchy i. For check see enter.
func (j *Job) admit(i int, p Process, check func() error) error {
	inV2 := j.split && j.dirs[i].h.v2
	if !inV2 || !j.apart || !j.delegated() {
		err := enter(j.entrance(i), p, check)
		if !errors.Is(err, unix.EBUSY) || !inV2 {
			return err
		}
	}
	outer, err := j.dirs[i].outer()
	if err != nil {
		return err
	}
	return enter(outer, p, check)
}

// freeFromOwnLimits moves dying processes of a delegated job to outer. They die slowly if their
// owner has limited their cpu time. Those that are already exiting stay.
func (j *Job) freeFromOwnLimits(pids []int) error {
	if len(pids) == 0 || !j.delegated() {
		return nil
	}
	outer, err := j.home().outer()
	if err != nil {
		return err
	}
	var errs []error
	for some := range slices.Chunk(pids, maxHeld()) {
		processes, err := j.hold(some)
		errs = append(errs, err)
		for _, p := range processes {
			if err := enter(outer, p, nil); !errors.Is(err, ErrEnded) {
				errs = append(errs, err)
			}
		}
		processes.close()
	}
	return errors.Join(errs...)
}

// removeMain removes main of a delegated job with everything in it. Before that it makes sure that
// the owner cannot create anything there. If ctx ends first, it fails with ErrBusy, and the removal
// continues. Until that has finished, the job's directory must stay. Its removal would hold the
// lock of the parent of all jobs while it waits.
func (j *Job) removeMain(ctx context.Context) error {
	for {
		uid, ok := j.mainOwner()
		if !ok {
			return nil
		}
		started := false
		done := j.tree.removals.DoChan(j.id, func() (any, error) {
			started = true
			return nil, j.removeMainNow(ctx)
		})
		select {
		case r := <-done:
			if started || r.Err == nil { // the time of another caller may be over
				return r.Err
			}
		case <-ctx.Done():
			return fmt.Errorf("%w: a process outside the job holds the lock of a directory of uid %d in %s: %w",
				ErrBusy, uid, j.home().Path(mainGroup), ctx.Err())
		}
	}
}

func (j *Job) removeMainNow(ctx context.Context) error {
	main, err := j.home().Sub(mainGroup)
	if err == nil {
		err = main.Write(maxDescendants, "0")
	}
	if err == nil {
		err = j.removeDir(ctx, directory{FS: main, h: j.home().h})
	}
	if gone(err) {
		return nil
	}
	return err
}

// isSubgroup reports whether the name of a cgroup in a job's can be that of a subgroup.
func isSubgroup(name string) bool { return name != mainGroup && name != outerGroup }
