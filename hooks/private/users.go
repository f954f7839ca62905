package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/disk"
)

// users are the owners of live jobs, and those whose leftovers have not been removed yet.
//
// Each has a file in dir, named by the uid. Its time of modification is the begin of the first job
// since leftovers were last removed. Its time of access is the end of the last job, or noEnd while
// there are jobs. Nobody reads or writes the file, so only this program changes these times. It
// does not belong to any job and does not outlive the boot.
//
// A goroutine for each user removes leftovers, because there may be millions of them.
type users struct {
	dir      string
	live     *liveJobs
	clean    func(ctx context.Context, uid int, w window) error
	patience *patience
	log      *logrus.Entry

	mu     sync.Mutex
	works  map[int]*cleaning // by uid
	warned map[int]string    // the last warning about a user
}

// cleaning is a removal of a user's leftovers.
type cleaning struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func newUsers(
	dir string, live *liveJobs, clean func(context.Context, int, window) error, wait *patience,
	log *logrus.Entry,
) *users {
	return &users{dir: dir, live: live, clean: clean, patience: wait, log: log,
		works: map[int]*cleaning{}, warned: map[int]string{}}
}

// begin notes that the user has a job, which is a live one already, and ends a removal of the
// user's leftovers. Root, and an owner whose uid is not known, are not noted, so that nothing of
// theirs is removed. Idempotent.
func (u *users) begin(ctx context.Context, uid int) error {
	if uid <= 0 {
		return nil
	}
	u.mu.Lock()
	err := u.mark(uid)
	c := u.works[uid]
	u.mu.Unlock()
	if c != nil {
		c.cancel()
		u.patience.wait(ctx, uid, c.done)
	}
	return err
}

// noEnd is the end of a user's last job while there are jobs.
var noEnd = time.Unix(0, 0)

// mark makes the user's file unless there is one. The caller holds mu.
func (u *users) mark(uid int) error {
	if err := disk.MakeDir(u.dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(u.path(uid), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Chtimes(u.path(uid), noEnd, time.Time{}))
}

// window returns the time in which the user's jobs ran, and notes that the last one has ended. If
// there is no file of the user, the error is fs.ErrNotExist. The caller holds mu.
func (u *users) window(uid int) (window, error) {
	path := u.path(uid)
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return window{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	w := window{time.Unix(st.Mtim.Unix()), time.Unix(st.Atim.Unix())}
	if !w.until.Equal(noEnd) {
		return w, nil
	}
	w.until = time.Now()
	return w, os.Chtimes(path, w.until, time.Time{})
}

func (u *users) path(uid int) string { return filepath.Join(u.dir, strconv.Itoa(uid)) }

// forgetAll removes the files of all users. Otherwise what a user makes while nothing is removed
// would be removed once that is enabled again.
func (u *users) forgetAll() error { return os.RemoveAll(u.dir) }

// end begins to remove the leftovers of a user without jobs, and waits up to cleanTime.
func (u *users) end(ctx context.Context, uid int) {
	if c := u.start(uid); c != nil {
		u.patience.wait(ctx, uid, c.done)
	}
}

// cleanAll begins to remove the leftovers of all users without jobs. It does not wait.
func (u *users) cleanAll() error {
	files, err := os.ReadDir(u.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range files {
		if uid, err := strconv.Atoi(f.Name()); err == nil && uid > 0 {
			u.start(uid)
		}
	}
	return err
}

// start begins a removal, or returns the one that is under way. It returns nil if the user has a
// job.
func (u *users) start(uid int) *cleaning {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.live.uids()[uid] {
		return nil
	}
	w, err := u.window(uid)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		u.warn(uid, err)
		return nil
	}
	if c := u.works[uid]; c != nil {
		return c
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &cleaning{cancel, make(chan struct{})}
	u.works[uid] = c
	go func() {
		defer close(c.done)
		defer cancel()
		u.finish(ctx, uid, u.clean(ctx, uid, w))
	}()
	return c
}

// finish removes the user's file after a complete removal. Otherwise exechost_periodic tries again.
func (u *users) finish(ctx context.Context, uid int, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.works, uid)
	if ctx.Err() != nil || u.live.uids()[uid] {
		return
	}
	if err == nil {
		if err = os.Remove(u.path(uid)); err == nil || errors.Is(err, fs.ErrNotExist) {
			delete(u.warned, uid)
			return
		}
	}
	u.warn(uid, err)
}

// warn logs once why something of the user is not removed now. The caller holds mu.
func (u *users) warn(uid int, err error) {
	text := fmt.Sprintf("what jobs of uid %d left is removed later: %v", uid, err)
	if errors.Is(err, errInUse) {
		u.log.Debug(text)
	} else if u.warned[uid] != text {
		u.log.Warn(text)
		u.warned[uid] = text
	}
}
