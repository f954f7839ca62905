// Package disk replaces files as a whole, puts names on disk, waits for locks and checks owners.
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

// unfinished names a file while it is written. No container runtime, no exporter and no directory
// of hooks or host files takes such a name for one of its own.
const unfinished = ".hookhost-*.tmp"

// Replace gives the file path another content and mode, as a whole or not at all, and has both on
// disk when it returns. A link in its place is replaced, not followed.
func Replace(path string, content []byte, mode fs.FileMode) error {
	fresh, err := Write(filepath.Dir(path), bytes.NewReader(content), mode)
	if err != nil {
		return err
	}
	return Rename(fresh, path)
}

// ReplaceUnsynced is Replace that waits for no disk. ReplaceUnsynced is for what is made anew after
// a power loss.
func ReplaceUnsynced(path string, content []byte, mode fs.FileMode) error {
	fresh, err := write(filepath.Dir(path), bytes.NewReader(content), mode, (*os.File).Close)
	if err != nil {
		return err
	}
	return rename(fresh, path)
}

// Write writes content to a new file in dir and has it on disk when it returns. The caller renames
// or removes the file. Write leaves no file when it fails.
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

// Rename puts what Write has made in its place, on disk. Rename removes what it cannot rename.
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

// SyncDir puts the names in dir on disk: one that was made, renamed or removed outlives a power
// loss.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// RemoveUnfinished removes what a write left in dir that was broken off longer ago than age. A
// directory that is not there has nothing. RemoveUnfinished goes on whatever fails, and is
// idempotent.
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
