package inventory

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// unfinished is what Replace names a file while it is written. No container runtime and no exporter reads such a name.
const unfinished = ".hookhost-*.tmp"

// Replace writes a file that all may read, in one step for who reads it: the file is replaced as a whole or not at all. What is
// in its place before may be a link: that is replaced, not followed. The file is not forced to disk.
func Replace(name string, text []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), unfinished)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// RemoveUnfinished removes what a Replace left in the directory dir that was broken off more than a minute ago. It goes on
// whatever fails. Idempotent.
func RemoveUnfinished(dir string) error {
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
		if err == nil && time.Since(info.ModTime()) > time.Minute {
			err = os.Remove(filepath.Join(dir, e.Name()))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
