package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/kernfs/kernfstest"
	"github.com/hookhost/hookhost/internal/must"
)

var nobody = hostapi.Owner{User: "nobody", UID: 65534, GID: 65534}

// folder is a directory that everybody can enter.
func folder(t *testing.T) string {
	t.Helper()
	kernfstest.NeedRoot(t)
	dir, err := os.MkdirTemp("/tmp", "hhimage")
	must.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// An image is checked with the rights of its job's owner, through links, and nothing but files and
// directories is opened.
func TestImageIsCheckedAsTheOwner(t *testing.T) {
	dir := folder(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, mode := range map[string]os.FileMode{"open": 0o444, "closed": 0o600, "setuid": os.ModeSetuid | 0o600} {
		must.NoError(t, os.WriteFile(at(name), nil, mode), os.Chmod(at(name), mode))
	}
	must.NoError(t, os.WriteFile(at("group"), nil, 0o640), os.Chown(at("group"), 0, nobody.GID),
		os.Mkdir(at("dir"), 0o755), os.Mkdir(at("listed"), 0o744), os.Chmod(at("listed"), 0o744),
		os.Mkdir(at("private"), 0o700), os.WriteFile(at("private/x"), nil, 0o644),
		os.Symlink(at("closed"), at("link")), os.Symlink(at("open"), at("good link")), os.Symlink("loop", at("loop")),
		unix.Mkfifo(at("fifo"), 0o666), os.Chmod(at("fifo"), 0o666))
	c := &checker{limit: time.Minute}
	for name, want := range map[string]string{
		"open": "file", "good link": "file", "dir": "directory", "group": "file", "/": "directory",
		"none": "no such file", "closed": "permission denied", "setuid": "permission denied",
		"link":   "permission denied",
		"listed": "permission denied", "private": "permission denied", "private/x": "permission denied",
		"open/x": "not a directory", "loop": "too many levels", "fifo": "neither a file nor a directory",
		"/dev/null": "neither a file nor a directory", "/dev/tty": "neither a file nor a directory",
	} {
		path := name
		if !filepath.IsAbs(path) {
			path = at(name)
		}
		directory, err := c.check(context.Background(), nobody, "/bin/sh", path)
		got := map[bool]string{true: "directory", false: "file"}[directory]
		if err != nil {
			got = err.Error()
		}
		if _, is := errors.AsType[errImage](err); !strings.Contains(got, want) || err != nil && !is {
			t.Errorf("%s: %s (%s), want %s", name, got, hostapi.KindOf(err), want)
		}
	}
	for program, want := range map[string]string{at("open"): "permission denied", at("none"): "no such file"} {
		_, err := c.check(context.Background(), nobody, program, at("open"))
		if hostapi.KindOf(err) != hostapi.KindNode || !strings.Contains(err.Error(), want) {
			t.Errorf("engine %s: %v, want %s", program, err, want)
		}
	}
	stranger := hostapi.Owner{User: "no-such-user", UID: 4, GID: 4}
	_, err := c.check(context.Background(), stranger, "/bin/sh", at("open"))
	if hostapi.KindOf(err) != hostapi.KindNode {
		t.Errorf("an unknown owner: %v", err)
	}
}

// A file system that does not answer delays a begin only by the limit. Meanwhile the owner, whose
// process the check is, cannot trace it.
func TestHangingImageIsGivenUp(t *testing.T) {
	dir := folder(t)
	fuse, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		kernfstest.Elsewhere(t, "/dev/fuse: %v", err)
	}
	// Nobody answers FUSE_INIT.
	must.NoError(t, unix.Mount("hhimage", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV,
		fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fuse)))
	t.Cleanup(func() { must.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	closed := false
	end := func() {
		if !closed {
			unix.Close(fuse)
		}
		closed = true
	}
	t.Cleanup(end)
	c := &checker{limit: time.Minute, pause: time.Second}
	ctx, giveUp := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.check(ctx, nobody, "/bin/sh", filepath.Join(dir, "x"))
		done <- err
	}()
	must.Eventually(t, "the check runs as its owner, but belongs to root", func() bool {
		all, _ := filepath.Glob("/proc/[0-9]*/status")
		for _, status := range all {
			args, _ := os.ReadFile(filepath.Join(filepath.Dir(status), "cmdline"))
			text, err := os.ReadFile(status)
			if !strings.Contains(string(args), "\x00"+checkCommand+"\x00") || !strings.Contains(string(args), dir) ||
				err != nil || !strings.Contains(string(text), "\nUid:\t65534\t65534\t65534\t65534\n") {
				continue
			}
			var st unix.Stat_t
			return unix.Stat(status, &st) == nil && st.Uid == 0
		}
		return false
	})
	giveUp() // as the limit does
	if err := <-done; hostapi.KindOf(err) != hostapi.KindBusy {
		t.Errorf("given up: %v", err)
	}
	hasty := &checker{limit: time.Millisecond}
	_, err = hasty.check(context.Background(), nobody, "/bin/sh", filepath.Join(dir, "x"))
	if hostapi.KindOf(err) != hostapi.KindBusy || !strings.Contains(err.Error(), "no answer in 1ms") {
		t.Errorf("after the limit: %v", err)
	}
	for _, when := range []string{"beside it", "right after it"} {
		if _, err := c.check(context.Background(), nobody, "/bin/sh", "/"); hostapi.KindOf(err) != hostapi.KindBusy {
			t.Errorf("%s: %v", when, err)
		}
		end()
	}
	other := hostapi.Owner{User: "daemon", UID: 1, GID: 1}
	if _, err := c.check(context.Background(), other, "/bin/sh", ""); err != nil {
		t.Errorf("another owner: %v", err)
	}
	must.Eventually(t, "after a pause it is checked again", func() bool {
		_, err := c.check(context.Background(), nobody, "/bin/sh", "/")
		return err == nil
	})
}
