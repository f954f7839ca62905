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

	mu     sync.Mutex
	busy   map[int]bool    // uids that have a goroutine
	warned map[string]bool // jobs whose TMPDIR could not be removed
	again  *time.Timer     // triggers the sweep for the rest
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
	l.mu.Lock()
	defer l.mu.Unlock()
	left, err := l.find()
	if err != nil {
		l.log.Errorf("remove files of dead jobs: %v", err)
	}
	for uid, dirs := range left {
		if l.busy[uid] {
			continue
		}
		if l.busy == nil {
			l.busy = map[int]bool{}
		}
		l.busy[uid] = true
		go l.remove(uid, dirs)
	}
}

// find returns the TMPDIRs of jobs that are over, by the uid of their owner, and removes node files
// without TMPDIR. A job without a record may still live, if the record was lost. Such a job has a
// cgroup, and its files stay. The caller holds mu.
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
	errs = append(errs, err)
	left, waits := map[int][]mom.Left{}, map[string]bool{}
	for _, dir := range all {
		waits[dir.Job] = true
		left[over[dir.Job]] = append(left[over[dir.Job]], dir)
	}
	for job := range over {
		if live, _ := l.isLive(job); !live && !waits[job] && err == nil {
			errs = append(errs, mom.RemoveNodefile(job, l.aux))
		}
	}
	return left, errors.Join(errs...)
}

// remove removes these TMPDIRs of one user and those that come meanwhile, each once and within the
// limit. It also removes their node files.
func (l *leftovers) remove(uid int, dirs []mom.Left) {
	tried := map[string]bool{}
	for len(dirs) > 0 {
		for _, dir := range dirs {
			tried[dir.Job] = true
			if live, _ := l.isLive(dir.Job); live { // it has begun again since
				continue
			}
			ctx, cancel := context.WithTimeoutCause(context.Background(), l.limit,
				fmt.Errorf("not done within %v", l.limit))
			l.note(dir.Job, dir.Remove(ctx))
			cancel()
		}
		dirs = l.findNext(uid, tried)
	}
}

// note logs the first failure to remove a job's TMPDIR.
func (l *leftovers) note(job string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		delete(l.warned, job)
		return
	}
	if l.warned == nil {
		l.warned = map[string]bool{}
	}
	if !l.warned[job] {
		l.log.WithField("job", job).Warnf("its TMPDIR is removed later: %v", err)
		l.warned[job] = true
	}
}

// findNext returns the TMPDIRs of a user that were not tried yet. Without one, the user's goroutine
// ends, and a later sweep removes the rest.
func (l *leftovers) findNext(uid int, tried map[string]bool) []mom.Left {
	l.mu.Lock()
	defer l.mu.Unlock()
	left, err := l.find()
	if err != nil {
		l.log.Errorf("remove files of dead jobs: %v", err)
	}
	next := slices.DeleteFunc(slices.Clone(left[uid]), func(dir mom.Left) bool { return tried[dir.Job] })
	if len(next) == 0 {
		delete(l.busy, uid)
		if len(left[uid]) > 0 && l.again == nil {
			l.again = time.AfterFunc(removeAgain, l.sweep)
		} else if len(left[uid]) > 0 {
			l.again.Reset(removeAgain)
		}
	}
	return next
}
