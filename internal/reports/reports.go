// Package reports has the reports of finished jobs: one compressed file a job, in a directory of
// the day on which the job ended.
//
//	2026-11-28/20261128T002514.123Z.uid1000.failed-oom.12.srv.1-1795825514123.json.gz
//
// The name is the index (Name): lists are chosen by it, and a job is found by it. The file is one
// JSON object, the report with the job's series (file.go).
//
// The daemon is the only writer. A file is there as a whole or not at all. A run of a job has one
// file, however often Write is called. A damaged file costs its own report. A report that cannot be
// written, as on a full disk, waits in a second directory of the same form until Drain moves it.
package reports

import (
	"compress/gzip"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds are how long reports are there and how much disk they take.
type Bounds struct {
	Age  time.Duration
	Size int64 // bytes of all files
}

// Store is a directory of reports, and safe for concurrent use.
type Store struct {
	dir     string
	waiting string // the directory of reports that wait; "" where none does
	bounds  func() Bounds
	failed  func(error)

	written, failures atomic.Int64
	writers           sync.Pool     // of *gzip.Writer, which are large
	reading           chan struct{} // full while a call reads

	waitLock sync.Mutex // over the waiting directory

	sweepLock sync.Mutex
	sweeps    sync.WaitGroup
	swept     time.Time // when the last sweep began, by this process
	since     int64     // bytes that were written since then
}

// Open returns the reports in dir, and touches no file. Reports that cannot be written wait in
// waiting, which is to be on another file system. bounds is asked before reports are removed, and
// failed is called when they cannot be.
func Open(dir, waiting string, bounds func() Bounds, failed func(error)) *Store {
	return &Store{
		dir: dir, waiting: waiting, bounds: bounds, failed: failed, reading: make(chan struct{}, 1),
		writers: sync.Pool{New: func() any {
			z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // fails for a level that is none
			return z
		}},
	}
}

// Counts returns how many reports were written, and how often one could not be.
func (s *Store) Counts() (written, failures int64) { return s.written.Load(), s.failures.Load() }

// Close waits until old reports are removed, where that is going on.
func (s *Store) Close() { s.sweeps.Wait() }

// exclusively calls f while no other call reads: reading takes one cpu at most, however many ask.
// exclusively fails with the cause of ctx when that ends before.
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
