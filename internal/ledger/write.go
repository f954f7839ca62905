package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/disk"
)

// writer is the current file, open for one append. The caller holds the lock.
type writer struct {
	path string
	f    *os.File
	size int64 // up to the last newline: what comes after it is cut off
}

func openWriter(path string) (*writer, error) {
	w := &writer{path: path}
	if err := w.open(); err != nil {
		return nil, err
	}
	if err := w.cutTorn(); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *writer) open() (err error) {
	w.f, err = os.OpenFile(w.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	info, err := w.f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		w.close()
		return err
	}
	w.size = info.Size()
	return nil
}

func (w *writer) close() { w.f.Close() }

// cutTorn cuts off what a writer that died in the middle left after the last newline.
func (w *writer) cutTorn() error {
	for end := w.size; end > 0; {
		buf := make([]byte, min(block, end))
		if end == w.size {
			buf = buf[:1] // as a rule the newline is there
		}
		start := end - int64(len(buf))
		if _, err := w.f.ReadAt(buf, start); err != nil {
			return err
		}
		if i := bytes.LastIndexByte(buf, '\n'); i >= 0 {
			return w.truncate(start + int64(i) + 1)
		}
		end = start
	}
	return w.truncate(0)
}

func (w *writer) truncate(size int64) error {
	if size == w.size {
		return nil
	}
	if err := w.f.Truncate(size); err != nil {
		return err
	}
	w.size = size
	return nil
}

// has reports whether a line with that job and key is among the last onceWindow bytes. The file
// before counts too when this one is that new.
func (w *writer) has(job, key string) (bool, error) {
	prefix := linePrefix(job, key)
	find := func(f *os.File, window int64) (bool, error) {
		for line, err := range linesBackward(f, window) {
			if err != nil {
				return false, err
			}
			if len(line) >= sumEnd && hasPrefix(line, prefix) && checkLine(line) == nil {
				return true, nil
			}
		}
		return false, nil
	}
	there, err := find(w.f, onceWindow)
	if there || err != nil || w.size >= onceWindow {
		return there, err
	}
	before, err := os.OpenFile(rotatedPath(w.path, 1), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer before.Close()
	return find(before, onceWindow-w.size)
}

// append writes line, into a new file when this one would grow beyond limit.
func (w *writer) append(line []byte, limit int64) error {
	if w.size > 0 && w.size+int64(len(line)) > limit {
		if err := w.rotate(); err != nil {
			return fmt.Errorf("rotate: %w", err)
		}
	}
	if _, err := w.f.Write(line); err != nil {
		return errors.Join(err, w.f.Truncate(w.size))
	}
	// fdatasync writes the new size too, as the data could not be read without it.
	if err := unix.Fdatasync(int(w.f.Fd())); err != nil {
		return &fs.PathError{Op: "fdatasync", Path: w.path, Err: err}
	}
	if w.size == 0 {
		return disk.SyncDir(filepath.Dir(w.path)) // the name is new
	}
	return nil
}

func (w *writer) rotate() error {
	for i := rotated; i > 0; i-- {
		err := os.Rename(rotatedPath(w.path, i-1), rotatedPath(w.path, i))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	w.close()
	return w.open()
}
