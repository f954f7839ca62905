package ledger

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"slices"
)

// block is what is read at once: a few dozen reports.
const block = 64 << 10

// rotatedPath returns the path of the ith file; 0 is the current one.
func rotatedPath(path string, i int) string {
	if i == 0 {
		return path
	}
	return fmt.Sprintf("%s.%d", path, i)
}

// located is a line without its newline, and the offsets of it and of what follows the newline.
type located struct {
	text    []byte // no more than the beginning of one that is longer than maxLine
	at, end int64
}

// lines yields the lines of f from an offset on at which one begins. Bytes after the last newline
// are being written or torn, and no line. A line is valid until the next one.
func lines(f *os.File, from int64) iter.Seq2[located, error] {
	return func(yield func(located, error) bool) {
		r := bufio.NewReaderSize(io.NewSectionReader(f, from, math.MaxInt64-from), block)
		line := located{at: from, end: from}
		var long []byte
		for {
			part, err := r.ReadSlice('\n')
			line.end += int64(len(part))
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
				yield(located{}, fmt.Errorf("read %s: %w", f.Name(), err))
				return
			}
			line.text = part[:len(part)-1]
			if len(long) > 0 {
				line.text = append(long, line.text...)
				long = long[:0]
			}
			if !yield(line, nil) {
				return
			}
			line.at = line.end
		}
	}
}

// linesBackward yields the lines of f from the last one to the first. A line is valid until the
// next one.
func linesBackward(f *os.File) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		info, err := f.Stat()
		if err != nil {
			yield(nil, err)
			return
		}
		end := info.Size()
		var rest []byte        // what was read of the line that ends at end
		var used, spare []byte // rest is in used; what is read next goes to spare, before a copy of rest
		torn := true           // nothing ended with a newline yet
		for size := int64(block); end > 0; {
			n := min(size, end)
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
		if !torn {
			yield(rest, nil)
		}
	}
}
