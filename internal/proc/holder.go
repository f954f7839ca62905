package proc

import (
	"errors"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// HolderKiller ends what holds the processes of one job in their end, once they have got SIGKILL.
// These are the tracers of the job's owner, and his FUSE connections that do not answer. A
// HolderKiller is not for several goroutines.
type HolderKiller struct {
	Procfs, Sysfs *kernfs.FS
	UID           int    // of the job's owner; for root nothing is ended
	Job           string // its id
	// JobOf tells in which job's cgroup a process is (cgroup.Tree.JobOf).
	JobOf func(pid int) (id string, ok bool, err error)

	killed map[hostapi.ProcessID]bool
	fuse   connections
}

// Holder is what a HolderKiller has ended.
type Holder struct {
	Text string // for log and report
	Job  string // another job that a tracer was in; "" for none
}

// mostNamed bounds how many tracers are returned in all. Tracers beyond are killed too.
const mostNamed = 10

// End kills what holds the processes pids of the job. A call notes which FUSE connections have
// requests that wait, while one of pids may wait for them. With abort, those are aborted that had
// such requests at three calls in a row. fresh reports whether anything was ended that no earlier
// call has ended. End goes on after an error.
func (k *HolderKiller) End(pids []int, abort bool) (ended []Holder, fresh bool, err error) {
	if k.killed == nil {
		k.killed = map[hostapi.ProcessID]bool{}
	}
	killed, err := killTracers(k.Procfs, pids, k.UID, k.Job, k.JobOf)
	for _, t := range killed {
		if k.killed[t.ID()] {
			continue
		}
		k.killed[t.ID()], fresh = true, true
		if len(k.killed) > mostNamed {
			continue
		}
		h := Holder{Text: t.String()}
		if t.in != k.Job {
			h.Job = t.in
		}
		ended = append(ended, h)
	}
	if !Uninterruptible(k.Procfs, pids) {
		k.fuse = connections{}
		return ended, fresh, err
	}
	if k.fuse.refresh(k.Sysfs); !abort {
		return ended, fresh, err
	}
	aborted, abortErr := k.fuse.abort(k.Sysfs, k.UID)
	if len(aborted) > 0 {
		ended, fresh = append(ended, Holder{Text: abortedText(aborted, k.UID)}), true
	}
	return ended, fresh, errors.Join(err, abortErr)
}
