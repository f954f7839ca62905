// Package serieslog has the series of finished jobs: one compressed file a job, ID.json.gz.
//
// The file is JSON, compressed by gzip:
//
//	{"start":"2026-03-01T12:00:00Z","hosts":{"n1":{"host":{"times":[...],"columns":{...}}}}}
//
// A job's report is in the ledger, and the start tells to which run of the job a series belongs.
// Files are written in the background, after the ledger has the job: no event waits for them. A
// file is there as a whole or not at all. A write that fails, or a process that is killed before
// it, costs the job its series. The oldest files go when there is too much.
package serieslog

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hookhost/hookhost/internal/disk"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/series"
)

const (
	suffix     = ".json.gz"
	mostWait   = 256      // jobs that wait to be written; a disk that hangs costs further ones their series
	mostOfAJob = 64 << 20 // bytes of a job's series as JSON
)

// Bounds are how long series are there and how much disk they take. Either may be 0: no series is
// written then.
type Bounds struct {
	Age  time.Duration
	Size int64 // bytes of all files
}

// Log is a directory of series, and is safe for concurrent use. A directory has one Log at a time
// that writes to it: that of the daemon.
type Log struct {
	dir    string
	bounds func() Bounds
	failed func(error)

	mu      sync.Mutex
	waiting []*entry        // the first is being written
	idle    chan struct{}   // closed when nothing waits any more; nil while nothing does
	failing bool            // the last write failed, and failed was called
	told    map[string]bool // what failed was called with of readings

	swept   time.Time // by this process; of the writer alone, as is written
	written int64     // bytes since then
}

// entry is the content of a file.
type entry struct {
	job   string
	Start *time.Time `json:"start"` // of the report
	Hosts series.Job `json:"hosts"`
}

// Open returns the log in dir, and touches no file. bounds is asked before each write. failed is
// called when writes begin to fail, and for a file that cannot be read.
func Open(dir string, bounds func() Bounds, failed func(error)) *Log {
	return &Log{dir: dir, bounds: bounds, failed: failed, told: map[string]bool{}}
}

// Add has the series of a job that has ended written, in the background.
func (l *Log) Add(r *report.Report, s series.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) >= mostWait {
		l.noteWrite(fmt.Errorf("series of job %s: not kept: %d jobs wait to be written", r.Job, mostWait))
		return
	}
	l.waiting = append(l.waiting, &entry{job: r.Job, Start: r.Start, Hosts: s})
	if l.idle == nil {
		l.idle = make(chan struct{})
		go l.writeAll()
	}
}

// writeAll writes until nothing waits.
func (l *Log) writeAll() {
	for {
		l.mu.Lock()
		if len(l.waiting) == 0 {
			close(l.idle)
			l.idle = nil
			l.mu.Unlock()
			return
		}
		next := l.waiting[0]
		l.mu.Unlock()
		err := errors.Join(l.write(next), l.sweepIfDue())
		l.mu.Lock()
		l.waiting = l.waiting[1:]
		l.noteWrite(err)
		l.mu.Unlock()
	}
}

// noteWrite calls failed for the first of several writes that fail. The caller holds mu.
func (l *Log) noteWrite(err error) {
	if err != nil && !l.failing {
		l.failed(err)
	}
	l.failing = err != nil
}

func (l *Log) write(e *entry) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("series of job %s: not kept: %w", e.job, err)
		}
	}()
	if b := l.bounds(); b.Age <= 0 || b.Size <= 0 {
		return nil
	}
	var text bytes.Buffer
	z := gzip.NewWriter(&text)
	if err := errors.Join(json.NewEncoder(z).Encode(e), z.Close()); err != nil {
		return err
	}
	err = disk.ReplaceUnsynced(pathOf(l.dir, e.job), text.Bytes(), 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(l.dir, 0o700); err == nil {
			err = disk.ReplaceUnsynced(pathOf(l.dir, e.job), text.Bytes(), 0o600)
		}
	}
	if err == nil {
		l.written += onDisk(int64(text.Len()))
	}
	return err
}

// Close waits until nothing waits to be written, or until ctx ends. The caller adds nothing more.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	idle := l.idle
	l.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("write series to %s: %w", l.dir, ctx.Err())
	}
}

// Join returns a finished job's report, as the ledger has it, with the series of its hosts. A
// series that cannot be read is left out, and failed is called once for it.
func (l *Log) Join(text json.RawMessage) json.RawMessage {
	joined, err := join(text, func(job string) (*entry, error) {
		if e := l.newest(job); e != nil {
			return e, nil
		}
		return read(l.dir, job)
	})
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if text := err.Error(); !l.told[text] {
			l.told[text] = true
			l.failed(err)
		}
		return text
	}
	return joined
}

// newest returns the last entry of a job that waits to be written, nil if there is none.
func (l *Log) newest(job string) (found *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.waiting {
		if e.job == job {
			found = e
		}
	}
	return found
}

// Join is Log.Join where no daemon runs. With an error it returns the report as it was.
func Join(dir string, text json.RawMessage) (json.RawMessage, error) {
	return join(text, func(job string) (*entry, error) { return read(dir, job) })
}

func join(text json.RawMessage, find func(job string) (*entry, error)) (json.RawMessage, error) {
	r, err := report.FromArchive(text)
	if err != nil {
		return text, err
	}
	e, err := find(r.Job)
	if err != nil {
		return text, fmt.Errorf("series of job %s: left out: %w", r.Job, err)
	}
	if e == nil || !sameTime(e.Start, r.Start) { // of an earlier run
		return text, nil
	}
	r.Hosts = e.Hosts.Join(r.Hosts)
	joined, err := json.Marshal(r)
	if err != nil {
		return text, fmt.Errorf("series of job %s: left out: %w", r.Job, err)
	}
	return joined, nil
}

func sameTime(a, b *time.Time) bool { return a == b || a != nil && b != nil && a.Equal(*b) }

// read returns the content of a job's file, nil when there is none.
func read(dir, job string) (*entry, error) {
	f, err := os.Open(pathOf(dir, job))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	text, err := io.ReadAll(io.LimitReader(z, mostOfAJob))
	e := &entry{job: job}
	if err == nil {
		err = json.Unmarshal(text, e)
	}
	if err == nil {
		err = e.Hosts.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return e, nil
}

func pathOf(dir, job string) string { return filepath.Join(dir, job+suffix) }
