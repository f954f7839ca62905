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
	// removePause is the pause before the remaining files are removed. It doubles after each
	// failure.
	removePause  = time.Minute
	longestPause = time.Hour
)

// leftovers removes node files and TMPDIRs left by a `run` that was killed or had no time to remove
// them. The node files name the jobs and their owners. Only `run` creates them, after the job's
// record and before its program. A TMPDIR is removed before its node file, so the next daemon finds
// what this one has not removed.
//
// A TMPDIR may be huge, or may be filled while it is removed, so nothing waits for it. Jobs end
// first. A goroutine for each user removes that user's directories, one after the other.
type leftovers struct {
	aux, tmpDir string
	isLive      func(job string) (live, dying bool) // dying: its `run` was killed, and the job has yet to end
	log         *logrus.Entry
	limit       time.Duration // of one removal
	pause       time.Duration // before the remaining files are removed

	killed atomic.Bool // a `run` was killed, and its job may not have ended yet
	soon   atomic.Bool // a sweep is scheduled

	mu   sync.Mutex
	busy map[int]chan struct{} // wakes the goroutine of a uid
}

// runKilled notes that a `run` has died whose job has yet to be ended.
func (l *leftovers) runKilled() { l.killed.Store(true) }

// jobEnded triggers the removal of a `run`'s leftovers: at once if it was killed, otherwise after
// it has had its time. jobEnded does not wait.
func (l *leftovers) jobEnded() {
	if l.killed.Load() {
		go l.sweep()
	} else if l.soon.CompareAndSwap(false, true) {
		time.AfterFunc(l.pause, func() {
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
	for uid := range left {
		if wake, is := l.busy[uid]; is {
			select {
			case wake <- struct{}{}:
			default:
			}
			continue
		}
		if l.busy == nil {
			l.busy = map[int]chan struct{}{}
		}
		l.busy[uid] = make(chan struct{}, 1)
		go l.remove(uid, l.busy[uid])
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
		if !waits[job] && err == nil {
			errs = append(errs, mom.RemoveNodefile(job, l.aux))
		}
	}
	return left, errors.Join(errs...)
}

// remove removes the TMPDIRs of one user until there are none. A TMPDIR that has used up its time
// goes to the end, and is logged once. A TMPDIR that reappears also waits, since its user could
// recreate it forever.
func (l *leftovers) remove(uid int, wake <-chan struct{}) {
	had, removed := map[string]bool{}, map[string]bool{}
	for pause := l.pause; ; {
		l.mu.Lock()
		left, err := l.find()
		if err != nil {
			l.log.Errorf("remove files of dead jobs: %v", err)
		}
		dirs := left[uid]
		if len(dirs) == 0 {
			delete(l.busy, uid)
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		last := slices.DeleteFunc(slices.Clone(dirs), func(dir mom.Left) bool { return !had[dir.Job] })
		dirs = append(slices.DeleteFunc(dirs, func(dir mom.Left) bool { return had[dir.Job] }), last...)
		rest := false
		next := min(2*pause, longestPause)
		for _, dir := range dirs {
			ctx, cancel := context.WithTimeoutCause(context.Background(), l.limit,
				fmt.Errorf("not done within %v", l.limit))
			err := dir.Remove(ctx)
			if ctx.Err() != nil { // it takes long
				next = l.pause
			}
			cancel()
			if err == nil {
				rest = rest || removed[dir.Job]
				removed[dir.Job] = true
				continue
			}
			rest = true
			if !had[dir.Job] {
				had[dir.Job] = true
				l.log.WithField("job", dir.Job).Warnf("its TMPDIR is removed later: %v", err)
			}
		}
		if rest {
			select {
			case <-time.After(pause):
				pause = next
			case <-wake: // there are more
			}
		}
	}
}
