package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// emptyTime bounds the removal of one directory, for the sake of its user's others. It stays for
// the next exechost_periodic.
const emptyTime = time.Minute

// nobodyKnown is the uid of users whose jobs are no longer known.
const nobodyKnown = -1

// overName begins the names of directories whose jobs are over, before the uid of their owner. No
// job's id begins like this.
const overName = "over."

// ownerOf returns the owner of a directory whose job is over. ok is false for other names.
func ownerOf(name string) (uid int, ok bool) {
	rest, ok := strings.CutPrefix(name, overName)
	text, _, _ := strings.Cut(rest, ".")
	uid, err := strconv.Atoi(text)
	if err != nil {
		uid = nobodyKnown
	}
	return uid, ok
}

// discard renames the directory of a user's job below a base, if there is one, so that empty
// removes it. The name is free at once, for a later run of the job.
func (n namespaces) discard(base, id string, uid int) (found bool, err error) {
	dir := n.jobDirs(base)
	over := fmt.Sprintf("%s%d.%s", overName, uid, rand.Text())
	err = os.Rename(filepath.Join(dir, id), filepath.Join(dir, over))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// emptyAll begins to remove what discard has left.
func (n namespaces) emptyAll() {
	for _, base := range n.bases() {
		entries, err := os.ReadDir(n.jobDirs(base))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			n.log.Warnf("files of jobs that are over: %v", err)
		}
		for _, entry := range entries {
			if uid, over := ownerOf(entry.Name()); over {
				n.empty(uid)
			}
		}
	}
}

// empty begins to remove what discard has left of a user's below all bases, unless a removal is
// under way. It works in the background, because there may be millions of files. Each user has a
// goroutine, because a user can hold up a removal for any time. It is enough to fill a directory,
// or to list one that another job of theirs has open (see kernfs.Unlisted). What cannot be removed
// is logged and stays for the next exechost_periodic.
func (n namespaces) empty(uid int) <-chan struct{} {
	done := make(chan struct{})
	if _, underWay := n.emptying.LoadOrStore(uid, true); underWay {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		defer n.emptying.Delete(uid)
		for _, base := range n.bases() {
			if err := emptyDir(n.jobDirs(base), uid); err != nil {
				n.log.Warnf("files of jobs that are over: %v", err)
			}
		}
	}()
	return done
}

// emptyDir removes what discard has left of a user's in one directory. It tries every name.
func emptyDir(dir string, uid int) error {
	in, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	names, err := in.Readdirnames(-1)
	errs := []error{err}
	for _, name := range names {
		if owner, over := ownerOf(name); over && owner == uid {
			ctx, cancel := context.WithTimeout(context.Background(), emptyTime)
			l := &leftovers{ctx: ctx, all: true}
			errs = append(errs, l.remove(in, name, 1))
			cancel()
		}
	}
	return errors.Join(errs...)
}
