package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/internal/mom"
)

const (
	// removeTime bounds the removal of one TMPDIR. The user's other TMPDIRs wait for it.
	removeTime = time.Minute
	// removePause is how long a `run` has to remove its own files.
	removePause = time.Minute
	// removeAgain is the pause before a failed removal is tried again.
	removeAgain = 10 * time.Minute
)

// leftovers removes node files and TMPDIRs left by a `run` that was killed or had no time to remove
// them. The node files name the jobs and their owners. Only `run` creates them, after the job's
// record and before its program. A TMPDIR is removed before its node file, so the next daemon finds
// the TMPDIRs that this one has not removed.
//
// A TMPDIR may be huge, or may be filled while it is removed, so nothing waits for its removal.
// Jobs end first. A goroutine for each user removes that user's directories, one after the other. A
// later sweep removes the rest, and files created meanwhile.
type leftovers struct {
	aux, tmpDir string
	isLive      func(job string) (live, dying bool) // dying: its `run` was killed, and the job has yet to end
	log         *logrus.Entry
	limit       time.Duration // of one removal

	killed atomic.Bool // a `run` was killed, and its job may not have ended yet
	soon   atomic.Bool // a sweep is scheduled

	sweeping sync.Mutex // one sweep at a time: the directory of TMPDIRs is everybody's and may be huge

	mu     sync.Mutex
	busy   map[int][]mom.Left // uids that have a goroutine, with the TMPDIRs that it removes next
	warned map[string]bool    // jobs whose TMPDIR could not be removed
	again  *time.Timer        // triggers the sweep for the rest
}

// runKilled notes that a `run` has died and its job has yet to be ended.
func (l *leftovers) runKilled() { l.killed.Store(true) }

// jobEnded triggers the removal of a `run`'s leftovers: at once if it was killed, otherwise after
// removePause. jobEnded does not wait.
func (l *leftovers) jobEnded() {
	if l.killed.Load() {
		go l.sweep()
	} else if l.soon.CompareAndSwap(false, true) {
		time.AfterFunc(removePause, func() {
			l.soon.Store(false)
			l.sweep()
		})
	}
}

// sweep begins to remove the leftovers of jobs that are over.
func (l *leftovers) sweep() {
	l.sweeping.Lock()
	defer l.sweeping.Unlock()
	left, err := l.find()
	if err != nil {
		l.log.Errorf("remove files of dead jobs: %v", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid, dirs := range left {
		if l.busy == nil {
			l.busy = map[int][]mom.Left{}
		}
		if _, busy := l.busy[uid]; !busy {
			go l.remove(uid)
		}
		l.busy[uid] = dirs
	}
}

// find returns what may be TMPDIRs of jobs that are over, by the uid of their owner. A job without
// a record may still live, if the record was lost. Such a job has a cgroup, and its files stay.
func (l *leftovers) find() (map[int][]mom.Left, error) {
	l.killed.Store(false)
	files, err := os.ReadDir(l.aux)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	errs := []error{err}
	over := map[string]int{} // the owner's uid
	for _, f := range files {
		live, dying := l.isLive(f.Name())
		if dying {
			l.killed.Store(true)
		}
		if live {
			continue
		}
		uid, err := mom.OwnerOf(f.Name(), l.aux)
		if err == nil {
			over[f.Name()] = uid
		} else if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if len(over) == 0 {
		return nil, errors.Join(errs...)
	}
	all, err := mom.LeftIn(l.tmpDir, over)
	left := map[int][]mom.Left{}
	for _, dir := range all {
		left[dir.UID] = append(left[dir.UID], dir)
	}
	return left, errors.Join(append(errs, err)...)
}

// remove removes the TMPDIRs of one user and those that come meanwhile, each once and within the
// limit. It then removes the node file of a job that has none left. It hangs with a file system
// that the user has mounted on one of them.
func (l *leftovers) remove(uid int) {
	tried := map[string]bool{}
	for dirs := l.next(uid, tried); len(dirs) > 0; dirs = l.next(uid, tried) {
		failed := map[string]bool{}
		for _, dir := range dirs {
			tried[dir.Job] = true
			if live, _ := l.isLive(dir.Job); live { // it has begun again since
				continue
			}
			ctx, cancel := context.WithTimeoutCause(context.Background(), l.limit,
				fmt.Errorf("not done within %v", l.limit))
			err := dir.Remove(ctx)
			cancel()
			l.note(dir.Job, err)
			failed[dir.Job] = failed[dir.Job] || err != nil
		}
		for job, fails := range failed {
			if fails {
				continue
			}
			if live, _ := l.isLive(job); live { // it has begun again since
				continue
			}
			if err := mom.RemoveNodefile(job, l.aux, l.tmpDir, uid); err != nil {
				l.log.WithField("job", job).Errorf("remove files of dead jobs: %v", err)
			}
		}
	}
}

// next returns the TMPDIRs of a user that sweeps have found, except those of jobs that were tried.
// A later sweep finds these again. Without any, the user's goroutine ends.
func (l *leftovers) next(uid int, tried map[string]bool) []mom.Left {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := len(l.busy[uid])
	dirs := slices.DeleteFunc(l.busy[uid], func(dir mom.Left) bool { return tried[dir.Job] })
	if len(dirs) < found {
		l.sweepLater()
	}
	l.busy[uid] = nil
	if len(dirs) == 0 {
		delete(l.busy, uid)
	}
	return dirs
}

// note logs the first failure to remove a job's TMPDIR. A later sweep tries again.
func (l *leftovers) note(job string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		delete(l.warned, job)
		return
	}
	l.sweepLater()
	if l.warned == nil {
		l.warned = map[string]bool{}
	}
	if !l.warned[job] {
		l.log.WithField("job", job).Warnf("its TMPDIR is removed later: %v", err)
		l.warned[job] = true
	}
}

// sweepLater schedules the sweep for the rest. The caller holds mu.
func (l *leftovers) sweepLater() {
	if l.again == nil {
		l.again = time.AfterFunc(removeAgain, l.sweep)
	} else {
		l.again.Reset(removeAgain)
	}
}
