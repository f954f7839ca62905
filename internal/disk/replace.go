// Package disk replaces files atomically, syncs directories, waits for locks and checks owners.
package disk

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// unfinished is the name of a file while it is written. Container runtimes, exporters, and readers
// of hooks and host files ignore such names.
const unfinished = ".hookhost-*.tmp"

// Replace replaces the file at path and its mode, either completely or not at all. When it returns,
// the file is on disk. A link at path is replaced, not followed.
func Replace(path string, content []byte, mode fs.FileMode) error {
	fresh, err := Write(filepath.Dir(path), bytes.NewReader(content), mode)
	if err != nil {
		return err
	}
	return Rename(fresh, path)
}

// ReplaceUnsynced is Replace without waiting for the disk. It is for files that are recreated after
// a power loss.
func ReplaceUnsynced(path string, content []byte, mode fs.FileMode) error {
	return replaceUnsynced(path, content, mode, (*os.File).Close)
}

// ReplaceForGroup is ReplaceUnsynced for a file of that group. No reader finds it with another one.
func ReplaceForGroup(path string, content []byte, mode fs.FileMode, gid int) error {
	return replaceUnsynced(path, content, mode, func(f *os.File) error {
		return errors.Join(f.Chown(-1, gid), f.Close())
	})
}

func replaceUnsynced(path string, content []byte, mode fs.FileMode, end func(*os.File) error) error {
	fresh, err := write(filepath.Dir(path), bytes.NewReader(content), mode, end)
	if err != nil {
		return err
	}
	return rename(fresh, path)
}

// Write writes content to a new file in dir. When it returns, the content is on disk. The caller
// renames or removes the file. If Write fails, it leaves no file.
func Write(dir string, content io.Reader, mode fs.FileMode) (path string, err error) {
	return write(dir, content, mode, func(f *os.File) error { return errors.Join(f.Sync(), f.Close()) })
}

func write(dir string, content io.Reader, mode fs.FileMode, end func(*os.File) error) (string, error) {
	f, err := os.CreateTemp(dir, unfinished)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, content)
	if err = errors.Join(err, f.Chmod(mode), end(f)); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// Rename renames a file that Write has written, and syncs the directory. If the rename fails, it
// removes the file.
func Rename(fresh, path string) error {
	if err := rename(fresh, path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

func rename(fresh, path string) error {
	err := os.Rename(fresh, path)
	if err != nil {
		err = errors.Join(err, os.Remove(fresh))
	}
	return err
}

// SyncDir syncs the names in dir, so that creations, renames and removals survive a power loss.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// RemoveUnfinished removes files in dir that an interrupted write left more than age ago. A missing
// directory is not an error. RemoveUnfinished continues after errors, and is idempotent.
func RemoveUnfinished(dir string, age time.Duration) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		if ours, _ := filepath.Match(unfinished, e.Name()); !ours || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err == nil && time.Since(info.ModTime()) > age {
			err = os.Remove(filepath.Join(dir, e.Name()))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
