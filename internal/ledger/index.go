package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// sliceSize is what one call reads, in bytes, before another gets its turn: about a millisecond.
const sliceSize = 1 << 20

// indexed is what a Ledger knows of a file: the lines that were there when it was last read, and
// where that ended. The file alone decides it, and a later question reads only what was appended
// since. An entry takes 32 bytes, some 7 MB in all for a full ledger.
//
// A full ledger of 300 MB takes 0.1 s the first time, and 0.5 ms after that.
type indexed struct {
	info    fs.FileInfo
	head    []byte // how the file begins: the sum of its first line
	end     int64  // of what was read: whole lines only
	lines   int    // in that
	entries []entry
	damaged damaged
}

// entry is a line whose sum is right. Elements that are in a slice never change.
type entry struct {
	job  uint64 // hash of the job's id
	at   int64  // where the line begins
	size int32  // without its newline
	uid  uint32 // of the owner; noUID when not known
	time uint32 // Unix seconds when it was appended
	key  uint32 // part of the hash of AppendOnce's key; 0 for none
}

const noUID = 1<<32 - 1 // as in the kernel

var seed = maphash.MakeSeed()

func hashOf(job []byte) uint64 { return maphash.Bytes(seed, job) }

// runOf returns part of the hash of a key, never 0; 0 where there is no key.
func runOf(key []byte) uint32 {
	if len(key) == 0 {
		return 0
	}
	return uint32(maphash.Bytes(seed, key)) | 1
}

func (e entry) owner() int {
	if e.uid == noUID {
		return -1
	}
	return int(e.uid)
}

// view is an indexed file as it was when a question was asked.
type view struct {
	name  string
	waits bool // the backlog
	indexed
}

// exclusively calls f while no other call of this Ledger reads. Reading takes one cpu at most,
// however many ask. The error is ctx's when that ends before.
func (l *Ledger) exclusively(ctx context.Context, f func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case l.reading <- struct{}{}:
		defer func() { <-l.reading }()
		return f()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// index returns a file, nil when there is none, with all that it holds now. The file is read from
// where the last call ended, in slices. A slice that was read counts for all callers: a caller who
// goes away wastes no more than that.
func (l *Ledger) index(ctx context.Context, path string) (*view, error) {
	for {
		var v *view
		var done bool
		err := l.exclusively(ctx, func() (err error) {
			v, done, err = l.readOn(path)
			return err
		})
		if err != nil || done {
			return v, err
		}
	}
}

// readOn indexes one slice more of a file; done says that it has come to the end.
func (l *Ledger) readOn(path string) (v *view, done bool, err error) {
	f, err := open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	x, err := l.knownAs(f)
	if err != nil {
		return nil, false, err
	}
	start := x.end
	for line, err := range lines(f, x.end) {
		if err != nil {
			return nil, false, err
		}
		x.add(line)
		if x.end-start >= sliceSize {
			return nil, false, nil
		}
	}
	return &view{name: path, waits: l.waits(path), indexed: *x}, true, nil
}

// open opens a file of the ledger for reading.
func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

// knownAs returns what is known of an open file: nothing where it is another than before, or
// somebody has rewritten it. The caller has the turn.
func (l *Ledger) knownAs(f *os.File) (*indexed, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	for i, x := range l.known {
		if !os.SameFile(x.info, info) {
			continue
		}
		if info.Size() >= x.end && x.begins(f) {
			return x, nil
		}
		l.known = slices.Delete(l.known, i, i+1)
		break
	}
	// A ledger has gained a file, so it may have lost one.
	l.known = slices.DeleteFunc(l.known, func(x *indexed) bool { return l.pathOf(x.info) == "" })
	x := &indexed{info: info}
	l.known = append(l.known, x)
	return x, nil
}

// begins reports whether an open file begins as x does: an inode has another file one day.
func (x *indexed) begins(f *os.File) bool {
	head := make([]byte, len(x.head))
	n, _ := f.ReadAt(head, 0)
	return bytes.Equal(head[:n], x.head)
}

// pathOf returns where a file is now, "" when it is no file of the ledger any more.
func (l *Ledger) pathOf(info fs.FileInfo) string {
	for _, path := range l.paths() {
		if now, err := os.Lstat(path); err == nil && os.SameFile(now, info) {
			return path
		}
	}
	return ""
}

// add takes up the line that follows what was read.
func (x *indexed) add(line located) {
	if x.lines == 0 {
		x.head = bytes.Clone(line.text[:min(len(line.text), sumEnd)])
	}
	x.end = line.end
	x.lines++
	h, err := parseHead(line.text)
	if err != nil {
		x.damaged.add(DamagedLine{Line: x.lines, Job: jobNamed(line.text), at: line.at})
		return
	}
	x.entries = append(x.entries, entry{job: hashOf(h.job), at: line.at, size: int32(len(line.text)), uid: h.uid,
		time: h.time, key: runOf(h.key)})
}

// same reports whether two views are of one file.
func (v *view) same(other *view) bool { return os.SameFile(v.info, other.info) }

// last returns the newest entry of a job that may admits and where its line begins, nil and -1 when
// there is none.
func (l *Ledger) last(ctx context.Context, v *view, job string, may func(Entry) bool) (found *Entry, at int64,
	err error) {
	hash := hashOf([]byte(job))
	for _, e := range slices.Backward(v.entries) {
		if e.job != hash {
			continue
		}
		err := l.exclusively(ctx, func() error {
			f, err := l.reopen(v)
			if f == nil || err != nil {
				return err
			}
			defer f.Close()
			found, err = l.entryAt(f, v, e)
			return err
		})
		if err != nil || found != nil && found.Job == job && may(*found) {
			return found, e.at, err
		}
	}
	return nil, -1, nil
}

// placed is an Entry with where its line begins.
type placed struct {
	Entry
	at int64
}

// read returns the entries of the next lines of rest, a slice's worth, and the lines that follow
// them. Lines that have been damaged since they were indexed go to damage.
func (l *Ledger) read(ctx context.Context, v *view, rest []entry, damage *DamageError) (
	batch []placed, after []entry, err error) {
	err = l.exclusively(ctx, func() error {
		f, err := l.reopen(v)
		if f == nil || err != nil {
			rest = nil
			return err
		}
		defer f.Close()
		for size := 0; len(rest) > 0 && size < sliceSize; rest = rest[1:] {
			size += int(rest[0].size)
			runtime.Gosched() // an event is not to wait for a slice of lines to be parsed
			e, err := l.entryAt(f, v, rest[0])
			var bad *DamageError
			switch {
			case errors.As(err, &bad):
				damage.Count += bad.Count
				damage.Lines = append(damage.Lines, bad.Lines...)
			case err != nil:
				return err
			default:
				batch = append(batch, placed{*e, rest[0].at})
			}
		}
		return nil
	})
	return batch, rest, err
}

// reopen opens the file of a view, nil when it is no file of the ledger any more.
func (l *Ledger) reopen(v *view) (*os.File, error) {
	path := l.pathOf(v.info)
	if path == "" {
		return nil, nil
	}
	f, err := open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	if !v.begins(f) {
		return nil, f.Close()
	}
	return f, nil
}

// entryAt reads a line of an open file. A line that is not the one that was indexed is a
// *DamageError. Then the file is read anew for the next question. The caller has the turn.
func (l *Ledger) entryAt(f *os.File, v *view, e entry) (*Entry, error) {
	text := make([]byte, e.size)
	if _, err := f.ReadAt(text, e.at); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", v.name, err)
	}
	if h, err := parseHead(text); err != nil || hashOf(h.job) != e.job || h.uid != e.uid {
		l.known = slices.DeleteFunc(l.known, func(x *indexed) bool { return os.SameFile(x.info, v.info) })
	} else if found, err := parseLine(text); err == nil && found.UID == e.owner() {
		return &found, nil
	}
	damage := &DamageError{Path: l.path}
	damage.add(damaged{1, []DamagedLine{{Line: v.lineAt(e.at), Job: jobNamed(text)}}}, v.name)
	return nil, damage
}

// lineAt returns the number of the line that begins at an offset.
func (v *view) lineAt(at int64) int {
	before := func(e entry, at int64) int { return int(e.at - at) }
	n, _ := slices.BinarySearchFunc(v.entries, at, before)
	for _, d := range v.damaged.lines {
		if d.at < at {
			n++
		}
	}
	return n + 1
}
