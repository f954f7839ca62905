package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

// What a user's jobs left goes with the last of them, and nothing else does.
func TestLeftoversGoWithTheLastJob(t *testing.T) {
	n := newNode(t, cleanSettings)
	uid, other := newOwner(), newOwner()
	n.as(uid, "mkdir old old/dir; echo >old/file; echo >old/dir/file; echo >login")
	n.as(other, "mkdir -m 777 others; echo >others/file; echo >theirs")
	must.NoError(t, os.WriteFile(filepath.Join(n.shared, "roots"), nil, 0o666), os.Mkdir(n.shared+"/elsewhere", 0o755),
		os.Chown(n.shared+"/elsewhere", uid, uid), os.WriteFile(n.shared+"/elsewhere/file", nil, 0o600),
		os.Chown(n.shared+"/elsewhere/file", uid, uid))
	tick()
	before := tree(t, n.shared)
	first, second := jobOf("7.srv", uid), jobOf("8.srv", uid)
	n.call(hostapi.EventBegin, first)
	n.as(uid, `
		mkdir -p a/b/c .hidden old/made; chmod 777 a; echo >a/file; echo >a/b/c/file; echo >.hidden/file; echo >old/made/file
		ln a/file linked; ln a/file linked2; ln login loginlink; ln -s /etc/passwd link; ln -s others dirlink; mkfifo fifo
		echo >"$(printf 'a\nb')"; echo >others/left; echo >>old/file; chmod 0 a/b/c .hidden
		d=deep; mkdir $d; cd $d; for i in $(seq 200); do mkdir d; echo >d/file; cd d; done`)
	n.as(other, "echo >a/theirs; ln -s ../../roots a/roots")
	n.call(hostapi.EventBegin, second)
	left := tree(t, n.shared)
	n.call(hostapi.EventEnd, first)
	must.Equal(t, "while another job lives", left, tree(t, n.shared))
	tick()
	n.call(hostapi.EventEnd, second)
	// Others' files in the job's directory, and what is in a directory of others.
	want := append(before, "a", "a/roots", "a/theirs", "others/left")
	if knowsBirth(t, n.shared) {
		want = append(want, "loginlink") // a file that was there before
	} else { // these are known to be changed
		want = slices.DeleteFunc(want, func(name string) bool { return name == "old/file" || name == "login" })
	}
	slices.Sort(want)
	must.Equal(t, "after the last job", want, tree(t, n.shared))
	must.Equal(t, "users to be cleaned", none, n.marks())
	if b, err := os.ReadFile("/etc/passwd"); err != nil || len(b) == 0 {
		t.Error("/etc/passwd is gone")
	}
}

// knowsBirth reports whether the file system has the time when a file was made.
func knowsBirth(t *testing.T, path string) bool {
	t.Helper()
	var st unix.Statx_t
	must.NoError(t, unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BTIME, &st))
	return st.Mask&unix.STATX_BTIME != 0
}

// A file system that is mounted in a user's directory stays, and is not asked.
func TestLeftoversEndAtMounts(t *testing.T) {
	n := newNode(t, cleanSettings)
	uid := newOwner()
	job := jobOf("7.srv", uid)
	n.call(hostapi.EventBegin, job)
	n.as(uid, "mkdir dir dir/fuse dir/tmpfs fuse; echo >dir/file")
	fuse, asked, _ := kernfstest.HangingFUSE(t, uid)
	tmpfs := n.shared + "/dir/tmpfs"
	must.NoError(t, unix.Mount(fuse, n.shared+"/dir/fuse", "", unix.MS_BIND, ""),
		unix.Mount(fuse, n.shared+"/fuse", "", unix.MS_BIND, ""), unix.Mount("test", tmpfs, "tmpfs", 0, "mode=777"))
	defer func() {
		for _, dir := range []string{n.shared + "/dir/fuse", n.shared + "/fuse", tmpfs} {
			must.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
		}
	}()
	n.as(uid, "echo >dir/tmpfs/file")
	n.call(hostapi.EventEnd, job)
	must.Equal(t, "left", []string{"fuse", "tmpfs"}, names(t, n.shared+"/dir"))
	must.Equal(t, "left on the tmpfs", []string{"file"}, names(t, tmpfs))
	if asked() > 0 {
		t.Errorf("%d questions to the file system", asked())
	}
}

// Where others could exchange names, nothing is removed.
func TestDirectoryThatIsNotStickyIsNotCleaned(t *testing.T) {
	n := newNode(t, cleanSettings)
	uid := newOwner()
	must.NoError(t, os.Chmod(n.shared, 0o777))
	job := jobOf("7.srv", uid)
	n.call(hostapi.EventBegin, job)
	n.as(uid, "echo >file")
	n.call(hostapi.EventEnd, job)
	must.Equal(t, "left", []string{"file"}, names(t, n.shared))
	must.NoError(t, os.Chmod(n.shared, os.ModeSticky|0o777))
	n.hostCall(hostapi.EventPeriodic)
	must.Eventually(t, "exechost_periodic removes it", func() bool { return len(names(t, n.shared)) == 0 })
}

func TestMessageQueuesGo(t *testing.T) {
	n := newNode(t, strings.Replace(cleanSettings, "/there/is/none", "SHARED/../mqueue", 1))
	queues := filepath.Join(n.dir, "mqueue")
	must.NoError(t, os.Mkdir(queues, 0o755))
	if err := unix.Mount("mqueue", queues, "mqueue", 0, ""); err != nil {
		kernfstest.Elsewhere(t, "this kernel has no POSIX message queues: %v", err)
	}
	defer unix.Unmount(queues, unix.MNT_DETACH)
	uid := newOwner()
	name := fmt.Sprintf("hhtest%d", uid)
	job := jobOf("7.srv", uid)
	n.call(hostapi.EventBegin, job)
	n.as(uid, ": >"+queues+"/"+name) // as mq_open(3) creates it
	defer os.Remove(filepath.Join(queues, name))
	n.call(hostapi.EventEnd, job)
	if left := names(t, queues); slices.Contains(left, name) {
		t.Errorf("left %q", left)
	}
}

// A user exchanges names in another user's directory as leftovers are removed from it. That leads
// to no other place.
func TestExchangedNamesLeadNowhere(t *testing.T) {
	n := newNode(t, cleanSettings)
	uid := newOwner()
	home := filepath.Join(n.dir, "home")
	must.NoError(t, os.Mkdir(home, 0o755), os.Chown(home, uid, uid))
	for i := range 8 {
		job := jobOf(fmt.Sprintf("%d.srv", i+1), uid)
		n.call(hostapi.EventBegin, job)
		// Files in the home of the job's owner, which the job has written, too.
		n.as(uid, "echo >"+home+"/file; mkdir -m 777 open; cd open; ln -s "+home+" link; "+
			"for k in 1 2 3 4 5 6 7 8; do mkdir $k; ln -s ../"+filepath.Base(n.dir)+" $k/l; echo >$k/file; done")
		stop, stopped := make(chan struct{}), make(chan int)
		go func() {
			exchanges := 0
			defer func() { stopped <- exchanges }()
			for k := 1; ; k = k%8 + 1 {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond):
				}
				open := n.shared + "/open/"
				exchange := func() error {
					return unix.Renameat2(unix.AT_FDCWD, open+"link", unix.AT_FDCWD, fmt.Sprint(open, k),
						unix.RENAME_EXCHANGE)
				}
				if exchange() == nil {
					exchanges++
					exchange()
				}
			}
		}()
		time.Sleep(time.Millisecond)
		n.call(hostapi.EventEnd, job)
		close(stop)
		t.Logf("%d exchanges", must.Receive(t, "the other user", stopped))
		must.Equal(t, "the home", []string{"file"}, names(t, home))
		must.NoError(t, os.RemoveAll(n.shared+"/open"))
	}
}

// endsAfter is a context that ends after it was asked a number of times.
type endsAfter struct {
	context.Context
	times int
}

func (c *endsAfter) Err() error {
	if c.times--; c.times < 0 {
		return context.Canceled
	}
	return nil
}

// An error names its file once, and not each directory above it, too. A user can make those long.
func TestErrorOfADeepFileNamesItOnce(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", 20)), 0o700))
	in, err := os.Open(dir)
	must.NoError(t, err)
	defer in.Close()
	l := &leftovers{ctx: &endsAfter{context.Background(), 10}, all: true}
	err = l.remove(in, "d", 1)
	if !errors.Is(err, context.Canceled) || strings.Count(err.Error(), dir) != 1 {
		t.Errorf("%v", err)
	}
}
