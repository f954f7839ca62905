// Package reports stores the reports of finished jobs: one compressed file per job, in a directory
// for the day on which the job ended.
//
//	2026-11-28/20261128T002514.123Z.uid1000.failed-oom.12.srv.1-1795825514123.json.gz
//
// The name is the index (Name): it is used to select lists and to find a job. The file is one JSON
// object, the report with the job's series (file.go).
//
// The daemon is the only writer. A file exists either completely or not at all. A run of a job has
// one file, however often Write is called. A damaged file does not affect other reports. A report
// that cannot be written, as on a full disk, waits in a second directory of the same form until
// Drain moves it.
package reports

import (
	"compress/gzip"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds limit how long reports are kept and how much disk space they use.
type Bounds struct {
	Age  time.Duration
	Size int64 // bytes of all files
}

// Store is a directory of reports, and safe for concurrent use.
type Store struct {
	dir     string
	waiting string // the directory of waiting reports; "" if none wait
	bounds  func() Bounds
	failed  func(error)

	written, failures atomic.Int64
	writers           sync.Pool     // of *gzip.Writer, which are large
	reading           chan struct{} // full while a call reads

	waitLock sync.Mutex // protects the waiting directory

	sweepLock sync.Mutex
	sweeps    sync.WaitGroup
	swept     time.Time // when this process last began a sweep
	since     int64     // bytes written since then
}

// Open returns the reports in dir, and touches no file. Reports that cannot be written wait in
// waiting, which should be on another file system. bounds is called before reports are removed, and
// failed is called if they cannot be removed.
func Open(dir, waiting string, bounds func() Bounds, failed func(error)) *Store {
	return &Store{
		dir: dir, waiting: waiting, bounds: bounds, failed: failed, reading: make(chan struct{}, 1),
		writers: sync.Pool{New: func() any {
			z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // fails only for an invalid level
			return z
		}},
	}
}

// Counts returns how many reports were written, and how often that failed.
func (s *Store) Counts() (written, failures int64) { return s.written.Load(), s.failures.Load() }

// Close waits for a removal of old reports to end.
func (s *Store) Close() { s.sweeps.Wait() }

// exclusively calls f while no other call reads: reading uses at most one cpu, however many callers
// there are. If ctx ends first, it fails with the cause of ctx.
func (s *Store) exclusively(ctx context.Context, f func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
		return f()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
