package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

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

// has reports whether a line with that job and key has been appended since then. The last
// onceWindow bytes count in any case, since a clock may have been set back.
func (w *writer) has(job, key string, since time.Time) (bool, error) {
	prefix, seen := linePrefix(job, key), 0
	find := func(f *os.File) (there, all bool, err error) {
		for line, err := range linesBackward(f) {
			if err != nil {
				return false, false, err
			}
			if len(line) >= sumEnd && hasPrefix(line, prefix) && checkLine(line) == nil {
				return true, true, nil
			}
			if seen += len(line) + 1; seen < onceWindow {
				continue
			}
			if h, err := parseHead(line); err == nil && h.time < seconds(since) {
				return false, true, nil
			}
		}
		return false, false, nil
	}
	there, all, err := find(w.f)
	for i := 1; i <= rotated && !all && err == nil; i++ {
		var before *os.File
		before, err = open(rotatedPath(w.path, i))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
			continue
		}
		if err != nil {
			break
		}
		there, all, err = find(before)
		before.Close()
	}
	return there, err
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
		// A line that the kernel may drop is not to pass for one that is there.
		return errors.Join(&fs.PathError{Op: "fdatasync", Path: w.path, Err: err}, w.f.Truncate(w.size))
	}
	if w.size == 0 {
		return disk.SyncDir(filepath.Dir(w.path)) // the name is new
	}
	return nil
}

// rotate moves each file by one number, up to the first number that is free. A rotation that was
// cut off has left a gap: the files beyond it have moved already.
func (w *writer) rotate() error {
	free := 1
	for ; free < rotated; free++ {
		if _, err := os.Lstat(rotatedPath(w.path, free)); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	for i := free; i > 0; i-- {
		err := os.Rename(rotatedPath(w.path, i-1), rotatedPath(w.path, i))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	w.close()
	return w.open()
}
