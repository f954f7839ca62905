package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Verification is what Verify found.
type Verification struct {
	Files  []VerifiedFile // oldest first
	Damage *DamageError   // nil where every line is as it was written
	Twice  []Duplicate
}

// VerifiedFile is a file of the ledger.
type VerifiedFile struct {
	Path    string
	Bytes   int64
	Reports int   // lines that are as they were written
	Damaged int   // lines that are not
	Torn    int64 // bytes behind the last whole line; in the current file the next append cuts them off
	Waits   bool  // the backlog
}

// Duplicate is a job that the ledger has twice with one run.
type Duplicate struct {
	Job           string
	First, Second string // as "ledger.jsonl:3"
}

// Verify reads the whole ledger, and not from the index. progress is called every MiB or so with
// how much has been read of all. Appends go on meanwhile, and those that come after the call do not
// count.
func (l *Ledger) Verify(ctx context.Context, progress func(read, all int64)) (*Verification, error) {
	v := &verifier{progress: progress, seen: map[run]place{}, damage: &DamageError{Path: l.path}}
	defer v.close()
	if err := v.open(l); err != nil {
		return nil, err
	}
	for _, f := range v.files {
		if err := v.read(ctx, f); err != nil {
			return nil, err
		}
	}
	if v.damage.Count > 0 {
		v.found.Damage = v.damage
	}
	return &v.found, nil
}

// place is where a line is.
type place struct {
	path string
	line int
}

func (p place) String() string { return fmt.Sprintf("%s:%d", filepath.Base(p.path), p.line) }

// verifier is a verification under way.
type verifier struct {
	files     []verifiedFile // oldest first
	seen      map[run]place
	damage    *DamageError
	found     Verification
	progress  func(read, all int64)
	done, all int64
}

// verifiedFile is an open file, and how long it was when it was opened.
type verifiedFile struct {
	*os.File
	path  string
	size  int64
	waits bool
	grows bool // a line at its end may be unfinished
}

func (v *verifier) close() {
	for _, f := range v.files {
		f.Close()
	}
}

// open opens all files, newest first: a file that a rotation moves meanwhile is seen twice, never
// missed.
func (v *verifier) open(l *Ledger) error {
	var infos []fs.FileInfo
	for _, path := range l.paths() {
		f, err := open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err != nil || slices.ContainsFunc(infos, func(i fs.FileInfo) bool { return os.SameFile(i, info) }) {
			f.Close()
			if err != nil {
				return err
			}
			continue
		}
		infos = append(infos, info)
		v.files = append(v.files, verifiedFile{f, path, info.Size(), l.waits(path), l.waits(path) || path == l.path})
		v.all += info.Size()
	}
	slices.Reverse(v.files)
	return nil
}

// read reads one file.
func (v *verifier) read(ctx context.Context, f verifiedFile) error {
	file := VerifiedFile{Path: f.path, Bytes: f.size, Waits: f.waits}
	number, end, told := 0, int64(0), int64(0)
	for line, err := range lines(f.File, 0) {
		if err != nil {
			return err
		}
		if line.end > f.size {
			break
		}
		number, end = number+1, line.end
		if end-told >= sliceSize {
			if told = end; ctx.Err() != nil {
				return context.Cause(ctx)
			}
			v.progress(v.done+end, v.all)
		}
		e, err := parseLine(line.text)
		if err != nil {
			file.Damaged++
			v.damage.add(damaged{1, []DamagedLine{{Line: number, Job: jobNamed(line.text)}}}, f.path)
			continue
		}
		file.Reports++
		v.note(e, place{f.path, number}, f.waits)
	}
	if file.Torn = f.size - end; file.Torn > 0 && !f.grows {
		file.Damaged++
		v.damage.add(damaged{1, []DamagedLine{{Line: number + 1}}}, f.path)
	}
	v.done += f.size
	v.found.Files = append(v.found.Files, file)
	return nil
}

// note finds out whether the run of an entry has been there before. An entry of the backlog may
// have been moved, and stays until all are.
func (v *verifier) note(e Entry, at place, waits bool) {
	if e.Key == "" {
		return
	}
	r := run{hashOf([]byte(e.Job)), runOf([]byte(e.Key))}
	first, twice := v.seen[r]
	switch {
	case !twice:
		v.seen[r] = at
	case !waits:
		v.found.Twice = append(v.found.Twice, Duplicate{Job: e.Job, First: first.String(), Second: at.String()})
	}
}
