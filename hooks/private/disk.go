package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/disk"
)

// Private directories with a base are on disk. From outside of their job only root reaches them:
//
//	BASE/PREFIX/JOBID/PATH   a private directory; JOBID belongs to the job's owner
//	BASE/PREFIX/over.RANDOM  what was JOBID before the job ended
//
// With the second name, JOBID is free for a later run of the job. The files are removed in the
// background, because there may be millions. A user can hold up a removal for any time, so each
// user has a goroutine. It is enough to fill a directory, or to list one that another of the user's
// jobs has open (see kernfs.Unlisted).

// overPrefix begins the names of directories whose jobs are over. No job's id begins like this.
const overPrefix = "over."

// emptyTime bounds the removal of one directory, so that its user's others are removed, too. What
// is left of it stays for the next exechost_periodic.
const emptyTime = time.Minute

// jobDirs returns the directories BASE/PREFIX.
func (n namespaces) jobDirs() (all []string) {
	for _, d := range n.dirs {
		if dir := filepath.Join(d.Base, n.prefix); d.Base != "" && !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return all
}

// makeDir makes a private directory of a job below its base, which exists.
//
// It looks like /tmp, because set-user-id programs of the job rely on that. In a directory of the
// owner's, the owner could exchange their files, and links would be followed
// (fs.protected_symlinks).
func (n namespaces) makeDir(d config.PrivateDir, job *hostapi.Job) (dir string, err error) {
	defer func() { err = busyIfFull(err) }()
	if err := disk.CheckDir(d.Base); err != nil { // a disk that is not mounted has none
		return "", fmt.Errorf("base %s: %w", d.Base, err)
	}
	jobs := filepath.Join(d.Base, n.prefix)
	if err := disk.MakeDir(jobs, 0o700); err != nil {
		return "", err
	}
	top := filepath.Join(jobs, job.ID)
	dir = filepath.Join(top, d.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, errors.Join(os.Chown(top, job.Owner.UID, -1), os.Chmod(dir, os.ModeSticky|0o777))
}

// busyIfFull makes the error of a base whose disk or quota is full KindBusy. Jobs can fill it, and
// their ends empty it again. They cannot fill /run, or reach the kernel's limits for mounts.
func busyIfFull(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return hostapi.Errorf(hostapi.KindBusy, "%w", err)
	}
	return err
}

// removeFiles removes a job's directories on disk, if there are any. It waits for that within the
// patience with their owner.
func (n namespaces) removeFiles(ctx context.Context, id string) error {
	var errs []error
	owner, found := 0, false
	for _, dir := range n.jobDirs() {
		path := filepath.Join(dir, id)
		info, err := os.Lstat(path)
		if err == nil {
			owner, found = ownerOf(info), true
			err = os.Rename(path, filepath.Join(dir, overPrefix+rand.Text()))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if found {
		n.patience.wait(ctx, owner, n.empty(owner))
	}
	return busyIfFull(errors.Join(errs...))
}

func ownerOf(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// over returns the directories of jobs that are over, by their owners.
func (n namespaces) over() map[int][]string {
	all := map[int][]string{}
	for _, dir := range n.jobDirs() {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			n.log.Warnf("files of jobs that are over: %v", err)
		}
		for _, e := range entries {
			if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), overPrefix) {
				all[ownerOf(info)] = append(all[ownerOf(info)], filepath.Join(dir, e.Name()))
			}
		}
	}
	return all
}

// emptyAll begins to remove the files of all jobs that are over.
func (n namespaces) emptyAll() {
	for uid := range n.over() {
		n.empty(uid)
	}
}

// empty begins to remove the files of a user's jobs that are over, unless a removal is under way.
// What cannot be removed is logged and stays for the next exechost_periodic.
func (n namespaces) empty(uid int) <-chan struct{} {
	done := make(chan struct{})
	if _, underWay := n.emptying.LoadOrStore(uid, true); underWay {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		defer n.emptying.Delete(uid)
		for _, dir := range n.over()[uid] {
			if err := removeTree(dir); err != nil {
				n.log.Warnf("files of a job that is over: %v", err)
			}
		}
	}()
	return done
}

// removeTree removes a directory with everything in it.
func removeTree(dir string) error {
	in, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer in.Close()
	ctx, cancel := context.WithTimeout(context.Background(), emptyTime)
	defer cancel()
	l := &leftovers{ctx: ctx, all: true}
	return l.remove(in, filepath.Base(dir), 1)
}
