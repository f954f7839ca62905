package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// left is what killed runs have left: files of jobs in aux, TMPDIRs in tmp.
type left struct{ aux, tmp string }

// newLeft returns one in memory, where many files are made in no time.
func newLeft(t *testing.T) left {
	dir, err := os.MkdirTemp("/dev/shm", "hookhost")
	must.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := left{filepath.Join(dir, "aux"), filepath.Join(dir, "tmp")}
	must.NoError(t, os.Mkdir(d.aux, 0o755), os.Mkdir(d.tmp, 0o755))
	return d
}

// leave makes the file of a job and its TMPDIR of that name, which has a/b in it.
func (d left) leave(t *testing.T, job, name string, owner int) (path string) {
	path = filepath.Join(d.tmp, name)
	file := filepath.Join(d.aux, job)
	must.NoError(t, os.WriteFile(file, nil, 0o640),
		unix.Setxattr(file, "trusted.hookhost.owner", []byte(fmt.Sprint(owner)), 0),
		os.MkdirAll(filepath.Join(path, "a/b"), 0o700), os.Chown(path, owner, -1))
	return path
}

// leftovers returns what a daemon removes them with.
func (d left) leftovers(t *testing.T, limit time.Duration, isLive func(string) (live, dying bool)) *leftovers {
	log := logrus.New()
	log.SetOutput(t.Output())
	return &leftovers{aux: d.aux, tmpDir: d.tmp, log: logrus.NewEntry(log), limit: limit, isLive: isLive}
}

// A TMPDIR that its user fills again as it is removed keeps none of another user from removal.
func TestEndlessTMPDIRHoldsUpItsUserAlone(t *testing.T) {
	kernfstest.NeedRoot(t)
	d := newLeft(t)
	d.leave(t, "1.srv", "pbs.1.srv", 65533)
	d.leave(t, "2.srv", "pbs.2.srv", 65534)
	endless, err := os.OpenRoot(filepath.Join(d.tmp, "pbs.1.srv"))
	must.NoError(t, err)
	defer endless.Close()
	var over atomic.Bool
	var filling sync.WaitGroup
	fill := func(who, from, to int) {
		for i := from; i < to; i++ {
			endless.WriteFile(fmt.Sprint(who, ".", i), nil, 0o600) // fails once the directory is gone
		}
	}
	fill(0, 0, 20000)
	for who := range 2 {
		filling.Go(func() {
			for i := 20000; !over.Load(); i++ {
				fill(who, i, i+1)
			}
		})
	}
	defer filling.Wait()
	defer over.Store(true)
	l := d.leftovers(t, time.Minute, func(string) (live, dying bool) { return false, false })
	l.sweep()
	must.Eventually(t, "that of another user is removed", func() bool {
		_, err := os.Lstat(filepath.Join(d.tmp, "pbs.2.srv"))
		return errors.Is(err, fs.ErrNotExist)
	})
	over.Store(true)
	must.Eventually(t, "the rest is removed", func() bool {
		rest, err := os.ReadDir(d.tmp)
		return err == nil && len(rest) == 0
	})
}

// A user's file system that does not answer, mounted on a TMPDIR, keeps no file of another user's
// jobs. The daemon removes that TMPDIR when the file system is gone.
func TestFUSEOnATMPDIRHoldsUpItsUserAlone(t *testing.T) {
	kernfstest.NeedRoot(t)
	d := newLeft(t)
	const alice, bob = 65533, 65534
	mounted := d.leave(t, "1.srv", "pbs.1.srv", alice)
	d.leave(t, "2.srv", "pbs.2.srv", bob)
	fuse, asked, abort := kernfstest.HangingFUSE(t, alice)
	must.NoError(t, unix.Mount(fuse, mounted, "", unix.MS_BIND, ""))
	unmount := sync.OnceFunc(func() {
		if err := unix.Unmount(mounted, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(unmount)
	l := d.leftovers(t, time.Minute, func(string) (live, dying bool) { return false, false })
	swept := func() {
		t.Helper()
		done := make(chan struct{})
		go func() { l.sweep(); close(done) }()
		must.Receive(t, "the end of a sweep", done)
	}
	left := func(dir string) (names []string) {
		files, err := os.ReadDir(dir)
		must.NoError(t, err)
		for _, f := range files {
			names = append(names, f.Name())
		}
		return names
	}
	swept()
	must.Eventually(t, "the file system is asked", func() bool { return asked() > 0 })
	must.Eventually(t, "the files of another user are removed", func() bool {
		return slices.Equal(left(d.aux), []string{"1.srv"}) && slices.Equal(left(d.tmp), []string{"pbs.1.srv"})
	})
	swept()
	abort()
	unmount()
	must.Eventually(t, "all files are removed", func() bool {
		swept()
		return len(left(d.aux)) == 0 && len(left(d.tmp)) == 0
	})
}

// A TMPDIR whose removal has failed is removed later, even if the next sweep finds its user's
// goroutine at another one.
func TestTMPDIRThatASweepFindsTooEarlyIsRemovedLater(t *testing.T) {
	kernfstest.NeedRoot(t)
	d := newLeft(t)
	failed := d.leave(t, "1.srv", "pbs.1.srv", 65534)
	d.leave(t, "2.srv", "pbs.2.srv", 65534)
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		var asked atomic.Int64
		l := d.leftovers(t, 0, func(job string) (live, dying bool) {
			if job != "2.srv" {
				return false, false
			}
			n := asked.Add(1)
			if n == 2 { // by the user's goroutine
				<-hangs
			}
			return n > 1, false
		})
		l.sweep()
		synctest.Wait()
		time.Sleep(removeAgain + time.Second)
		synctest.Wait()
		if rest, err := filepath.Glob(failed + "*"); err != nil || len(rest) != 1 || asked.Load() != 3 {
			t.Fatalf("left: %v, %v; asked %d times", rest, err, asked.Load())
		}
		close(hangs)
		synctest.Wait()
		l.mu.Lock()
		l.limit = time.Minute
		l.mu.Unlock()
		time.Sleep(removeAgain + time.Second)
		synctest.Wait()
		if rest, err := filepath.Glob(failed + "*"); err != nil || len(rest) > 0 {
			t.Errorf("left: %v, %v", rest, err)
		}
	})
}

// A TMPDIR that its user makes anew whenever it is removed is no endless work.
func TestTMPDIRThatIsMadeAnewWaits(t *testing.T) {
	kernfstest.NeedRoot(t)
	d := left{t.TempDir(), t.TempDir()}
	path := filepath.Join(d.tmp, "pbs.1.srv")
	must.NoError(t, os.WriteFile(filepath.Join(d.aux, "1.srv"), nil, 0o640), os.Mkdir(path, 0o700))
	var over atomic.Bool
	var made atomic.Int64
	var making sync.WaitGroup
	making.Go(func() {
		for !over.Load() {
			if os.Mkdir(path, 0o700) == nil {
				made.Add(1)
			}
		}
	})
	defer making.Wait()
	defer over.Store(true)
	l := d.leftovers(t, time.Minute, func(string) (live, dying bool) { return false, false })
	l.sweep()
	must.Eventually(t, "it is removed", func() bool { return made.Load() > 0 })
	time.Sleep(200 * time.Millisecond)
	if n := made.Load(); n > 5 {
		t.Errorf("it was removed %d times", n)
	}
}

// A huge TMPDIR is removed beside those of other users, and with a limit of time. The next daemon
// removes what is left of it. A job whose run was killed ends first.
func TestHugeTMPDIRKeepsNoOtherFromRemoval(t *testing.T) {
	kernfstest.NeedRoot(t)
	d := newLeft(t)
	const alice, bob = 65533, 65534
	var made atomic.Value // the job whose files are made: as with `run`, it has a record meanwhile
	made.Store("")
	leave := func(job, name string, owner int) (path string) {
		made.Store(job)
		defer made.Store("")
		return d.leave(t, job, name, owner)
	}
	gone := func(paths ...string) func() bool {
		return func() bool {
			for _, path := range paths {
				if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
					return false
				}
			}
			return true
		}
	}
	huge := leave("1.srv", "pbs.1.srv", alice)
	others := []string{
		leave("2.srv", "pbs.2.srv", alice), leave("3.srv", "pbs.3.srv", bob),
		leave("4[1].srv", "pbs.4[1].srv.abcdefghijklmnopqrstuvwxyz", bob),
	}
	live := leave("5.srv", "pbs.5.srv", bob)
	bobs := leave("6.srv", "pbs.6.srv", bob)
	must.NoError(t,
		unix.Setxattr(filepath.Join(d.aux, "6.srv"), "trusted.hookhost.owner", []byte(fmt.Sprint(alice)), 0))

	for i := range 20000 {
		must.NoError(t, os.WriteFile(filepath.Join(huge, fmt.Sprint(i)), nil, 0o600))
	}
	killed := leave("8.srv", "pbs.8.srv", bob)
	var ended, looked atomic.Bool
	daemon := func(limit time.Duration) *leftovers {
		return d.leftovers(t, limit, func(job string) (live, dying bool) {
			if job == "8.srv" {
				dying = !ended.Load()
				looked.Store(!dying)
			}
			return job == "5.srv" || job == made.Load() || dying, dying
		})
	}
	l := daemon(2 * time.Millisecond)
	l.sweep()
	must.Eventually(t, "all others are removed", func() bool { l.sweep(); return gone(others...)() })
	for _, job := range []string{"2.srv", "3.srv", "4[1].srv", "6.srv"} {
		must.Eventually(t, "node file of job "+job+" is removed", func() bool {
			l.sweep()
			return gone(filepath.Join(d.aux, job))()
		})
	}
	if _, err := os.Lstat(filepath.Join(d.aux, "1.srv")); err != nil {
		t.Errorf("node file of the huge one: %v", err)
	}
	if gone(killed)() {
		t.Error("the TMPDIR of a job that is to be ended was removed before that")
	}
	later := leave("7.srv", "pbs.7.srv", alice)
	must.Eventually(t, "a later one of the same user is removed", func() bool { l.sweep(); return gone(later)() })
	ended.Store(true)
	l.jobEnded()
	must.Eventually(t, "the files of a job that was to be ended are looked at", looked.Load)
	must.Eventually(t, "its TMPDIR is removed", func() bool { l.sweep(); return gone(killed)() })
	daemon(time.Minute).sweep()
	must.Eventually(t, "the rest is removed", func() bool {
		rest, err := filepath.Glob(filepath.Join(d.tmp, "pbs.1.srv*"))
		return err == nil && len(rest) == 0 && gone(filepath.Join(d.aux, "1.srv"))()
	})
	for what, path := range map[string]string{"of a live job": live, "of another user's": bobs} {
		if _, err := os.Lstat(filepath.Join(path, "a/b")); err != nil {
			t.Errorf("TMPDIR %s: %v", what, err)
		}
	}
}
