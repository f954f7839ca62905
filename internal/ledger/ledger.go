// Package ledger keeps the usage reports of finished jobs in ledger.jsonl, a file that is only ever
// appended to.
//
// A line is one JSON object, so that jq and grep read it too:
//
//	{"sum":"1c291ca3","job":"12.srv","key":"1","uid":1000,"time":"2026-03-01T...","report":{...}}
//
// sum is the CRC-32C of the bytes between its comma and the end of the line. sum, job, key and uid
// stand at fixed places, so that looking for them needs no JSON parser. An append is one write
// under a lock that all processes share, and on disk when it returns. The next append cuts off what
// a crash left of a line. A line that was damaged later is skipped and counted. At 64 MB the file
// becomes ledger.jsonl.1, that one .2, and so on up to .4: some 200,000 jobs.
//
// An entry that cannot be written, as on a full disk, waits in the backlog (backlog.go).
//
// Questions are answered from an index in memory (index.go). Each byte of the files is read once
// for it, whoever asks and however often.
package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

const (
	maxSize    = 64 << 20 // of one file: to read it for the index takes some 50 ms
	maxLine    = 16 << 20 // of one line: 50,000 hosts
	rotated    = 4        // files kept beside the current one
	onceWindow = 1 << 20  // how far back AppendOnce looks at least

	// An append takes milliseconds. A process that holds the lock for so long is stopped or has a
	// dead disk.
	lockTimeout = 10 * time.Second
)

// Ledger is an append-only file of finished jobs. Several goroutines and processes may use it at
// the same time.
type Ledger struct {
	path    string
	backlog *Ledger // nil where nothing waits
	maxSize int64
	timeout time.Duration
	turn    chan struct{} // full while a call of this Ledger holds the lock or waits for it

	appended, failed atomic.Int64

	reading chan struct{} // full while a call of this Ledger reads; guards known
	known   []*indexed    // the files that were read so far, in no order
}

// Entry is one line of the ledger.
type Entry struct {
	Job    string          `json:"job"`
	Key    string          `json:"key,omitempty"` // AppendOnce's key, "" for Append
	UID    int             `json:"uid"`           // the job's owner; -1 when not known
	Time   time.Time       `json:"time"`          // when it was appended
	Report json.RawMessage `json:"report"`
}

// Open returns the ledger at path, and touches no file. The first append creates the file with mode
// 0600 and its directory, if it is missing, with mode 0700.
func Open(path string) *Ledger {
	return &Ledger{
		path: path, maxSize: maxSize, timeout: lockTimeout,
		turn: make(chan struct{}, 1), reading: make(chan struct{}, 1),
	}
}

// Append writes v as JSON under the job's id and its owner's uid, -1 for one that is not known. The
// entry is on disk when Append returns nil. After an error it may be there or not, but never in
// part. ctx bounds the wait for other writers only.
func (l *Ledger) Append(ctx context.Context, job string, uid int, v any) error {
	e := Entry{Job: job, UID: uid}
	if err := e.fill(v); err != nil {
		return fmt.Errorf("append job %s to %s: %w", job, l.path, err)
	}
	return l.put(ctx, e, time.Time{})
}

// AppendOnce is Append unless the job has an entry with the same key already, such as its run count
// or start time. The key is for a host that died between the append and forgetting the job. No
// entry with that key is older than since, the end of the job: AppendOnce looks back to then.
//
// A ledger with a backlog takes the entry in there if it cannot be written. The error is a
// *WaitingError then.
func (l *Ledger) AppendOnce(ctx context.Context, job, key string, uid int, since time.Time, v any) error {
	if key == "" {
		return fmt.Errorf("append job %s to %s: empty key", job, l.path)
	}
	e := Entry{Job: job, Key: key, UID: uid}
	err := e.fill(v)
	if err != nil {
		return fmt.Errorf("append job %s to %s: %w", job, l.path, err)
	}
	if err = l.put(ctx, e, since); err != nil && l.backlog != nil {
		err = l.wait(ctx, e, since, err)
	}
	return err
}

// Counts returns how many entries this Ledger has appended, and how many appends have failed.
func (l *Ledger) Counts() (appended, failed int64) { return l.appended.Load(), l.failed.Load() }

// fill sets the report of an entry and checks its job.
func (e *Entry) fill(v any) (err error) {
	if err := hostapi.CheckJobID(e.Job); err != nil {
		return err
	}
	e.Report, err = json.Marshal(v)
	return err
}

// put writes an entry with the time of now, unless one with its key has been written since then.
func (l *Ledger) put(ctx context.Context, e Entry, since time.Time) (err error) {
	defer func() {
		if err != nil {
			l.failed.Add(1)
			err = fmt.Errorf("append job %s to %s: %w", e.Job, l.path, err)
		}
	}()
	e.Time = time.Now().UTC()
	line, err := formatLine(e)
	if err != nil {
		return err
	}
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	w, err := openWriter(l.path)
	if err != nil {
		return err
	}
	defer w.close()
	if e.Key != "" {
		if there, err := w.has(e.Job, e.Key, since); there || err != nil {
			return err
		}
	}
	if err := w.append(line, l.maxSize); err != nil {
		return err
	}
	l.appended.Add(1)
	return nil
}

// Last is LastOf for entries of all owners.
func (l *Ledger) Last(ctx context.Context, job string) (report json.RawMessage, found bool, err error) {
	return l.LastOf(ctx, job, func(Entry) bool { return true })
}

// LastOf returns the report in the newest entry of the job that may admits, false when there is
// none. An id may have been given twice, to jobs of two owners.
//
// The error is a *DamageError when that entry, or a later one of the job, is damaged. So it is when
// the job is not found and any line is damaged, which may be its. LastOf ends with ctx.
func (l *Ledger) LastOf(ctx context.Context, job string, may func(Entry) bool) (report json.RawMessage, found bool,
	err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("report of job %s: %w", job, err)
		}
	}()
	unread := &DamageError{Path: l.path}
	// Newest first: a file that a rotation moves meanwhile is seen twice, never missed.
	for _, path := range l.paths() {
		v, err := l.index(ctx, path)
		if err != nil {
			return nil, false, err
		}
		if v == nil {
			continue
		}
		e, at, err := l.last(ctx, v, job, may)
		if err != nil {
			return nil, false, err
		}
		if newer := v.damaged.of(job, at); newer.count > 0 {
			damage := &DamageError{Path: l.path}
			damage.add(newer, v.name)
			return nil, false, damage
		}
		if e != nil {
			return e.Report, true, nil
		}
		unread.add(v.damaged, v.name)
	}
	if unread.Count > 0 {
		return nil, false, fmt.Errorf("not in a whole line: %w", unread)
	}
	return nil, false, nil
}

// Query chooses entries.
type Query struct {
	Of     func(uid int) bool // whose; gets -1 for an owner who is not known; nil: everybody's
	Since  time.Time          // appended no earlier; zero: all
	Newest bool               // newest first, else oldest first
}

// All calls yield for every entry of a query until it returns false. Entries appended meanwhile may
// come or not. Damaged lines are skipped; a *DamageError tells of them. If yield ends a query for
// the newest, damage of older lines is not told, and no damage if yield ends another. All ends with
// ctx, also between two entries.
func (l *Ledger) All(ctx context.Context, q Query, yield func(Entry) bool) error {
	files, err := l.views(ctx)
	if err != nil {
		return err
	}
	moved := movedOf(files)
	if !q.Newest {
		slices.Reverse(files)
	}
	damage := &DamageError{Path: l.path}
	for _, v := range files {
		if !q.Newest {
			damage.add(v.damaged, v.name)
		}
		for rest := v.chosen(q, moved); len(rest) > 0; {
			batch, after, err := l.read(ctx, v, rest, damage)
			if err != nil {
				return err
			}
			for _, e := range batch {
				switch {
				case yield(e.Entry):
				case !q.Newest:
					return nil
				default:
					damage.add(v.damaged.after(e.at), v.name)
					return damage.orNil()
				}
			}
			rest = after
		}
		if q.Newest {
			damage.add(v.damaged, v.name)
		}
	}
	return damage.orNil()
}

// views returns the files that there are, newest first, as they are now.
func (l *Ledger) views(ctx context.Context) ([]*view, error) {
	var files []*view
	for _, path := range l.paths() { // newest first, as in Last
		v, err := l.index(ctx, path)
		if err != nil {
			return nil, err
		}
		if v != nil && !slices.ContainsFunc(files, v.same) {
			files = append(files, v)
		}
	}
	return files, nil
}

// chosen returns the entries of a query that are in a file, in the query's order. Entries of the
// backlog that have moved to the ledger are left out.
func (v *view) chosen(q Query, moved map[run]bool) []entry {
	since := uint32(0)
	if !q.Since.IsZero() {
		since = seconds(q.Since)
	}
	var entries []entry
	for _, e := range v.entries {
		if e.time >= since && (q.Of == nil || q.Of(e.owner())) && !(v.waits && moved[run{e.job, e.key}]) {
			entries = append(entries, e)
		}
	}
	if q.Newest {
		slices.Reverse(entries)
	}
	return entries
}

// paths returns where the ledger's files are, newest first.
func (l *Ledger) paths() []string {
	var paths []string
	if l.backlog != nil {
		paths = append(paths, l.backlog.path)
	}
	for i := range rotated + 1 {
		paths = append(paths, rotatedPath(l.path, i))
	}
	return paths
}
