package ledger

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// block is what is read at once: a few dozen reports, which is where a fresh job's is.
const block = 64 << 10

type openFiles []*os.File

func (o openFiles) close() {
	for _, f := range o {
		f.Close()
	}
}

// files opens the ledger's files, newest first. In that order a rotation that happens meanwhile shows a file twice, which
// is noticed, and never hides one.
func (l *Ledger) files() (openFiles, error) {
	var files openFiles
	var infos []fs.FileInfo
	for i := 0; i <= rotated; i++ {
		f, err := os.OpenFile(rotatedPath(l.path, i), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			files.close()
			return nil, err
		}
		info, err := f.Stat()
		if err != nil {
			f.Close()
			files.close()
			return nil, err
		}
		if slices.ContainsFunc(infos, func(other fs.FileInfo) bool { return os.SameFile(info, other) }) {
			f.Close()
			continue
		}
		files, infos = append(files, f), append(infos, info)
	}
	return files, nil
}

// rotatedPath returns the path of the ith file; 0 is the current one.
func rotatedPath(path string, i int) string {
	if i == 0 {
		return path
	}
	return fmt.Sprintf("%s.%d", path, i)
}

// lines yields the lines of f, without their newlines, from the start. What comes after the last newline is being written
// or torn, and no line. A line is valid until the next one.
func lines(f *os.File) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		r := bufio.NewReaderSize(f, block)
		var long []byte
		for {
			part, err := r.ReadSlice('\n')
			if errors.Is(err, bufio.ErrBufferFull) {
				if len(long) <= maxLine { // what is longer is no line of ours; its beginning is enough to see that
					long = append(long, part...)
				}
				continue
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("read %s: %w", f.Name(), err))
				return
			}
			line := part[:len(part)-1]
			if len(long) > 0 {
				line = append(long, line...)
				long = long[:0]
			}
			if !yield(line, nil) {
				return
			}
		}
	}
}

// linesBackward yields the lines of f from the last one to the first that lies wholly within the last window bytes (0: all).
// A line is valid until the next one.
func linesBackward(f *os.File, window int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		info, err := f.Stat()
		if err != nil {
			yield(nil, err)
			return
		}
		end, first := info.Size(), int64(0)
		if window > 0 && end > window {
			first = end - window
		}
		var rest []byte        // what was read of the line that ends at end
		var used, spare []byte // rest is in used; what is read next goes to spare, before a copy of rest
		torn := true           // nothing ended with a newline yet
		for size := int64(block); end > first; {
			n := min(size, end-first)
			buf := slices.Grow(spare[:0], int(n)+len(rest))[:n]
			got, err := f.ReadAt(buf, end-n)
			if errors.Is(err, io.EOF) && torn && len(rest) == 0 {
				err = nil // a writer cut off a torn line meanwhile
			}
			if err != nil {
				yield(nil, fmt.Errorf("read %s: %w", f.Name(), err))
				return
			}
			buf, end = append(buf[:got], rest...), end-n
			used, spare = buf, used
			size *= 2 // while no line begins: a long one is not to be copied over and over
			for i := bytes.LastIndexByte(buf, '\n'); i >= 0; i = bytes.LastIndexByte(buf, '\n') {
				if !torn && !yield(buf[i+1:], nil) {
					return
				}
				buf, torn, size = buf[:i], false, block
			}
			rest = buf
		}
		if first == 0 && !torn {
			yield(rest, nil)
		}
	}
}
