// Package ledger keeps the usage reports of finished jobs in ledger.jsonl, a file that is only ever appended to.
//
// A line is one JSON object, so that jq and grep read it too:
//
//	{"sum":"1c291ca3","job":"12.srv","key":"1","time":"2026-03-01T12:00:00Z","report":{...}}
//
// sum is the CRC-32C of the bytes between its comma and the end of the line. It, job and key stand at fixed places, so
// that looking for a job needs no JSON parser. An append is one write under a lock that all processes share, and on disk
// when it returns. What a crash left of a line is cut off by the next append; a line that was damaged later is skipped
// and counted. At 64 MB the file becomes ledger.jsonl.1, that one .2, and so on up to .4: some 200,000 jobs.
package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

const (
	maxSize    = 64 << 20 // of one file: a reader that looks for a job not in it takes some 50 ms
	maxLine    = 16 << 20 // of one line: 50,000 hosts
	rotated    = 4        // files kept beside the current one
	onceWindow = 1 << 20  // how far back AppendOnce looks

	lockTimeout = 10 * time.Second // an append takes milliseconds; who holds the lock for so long is stopped or has a dead disk
)

// Ledger is an append-only file of finished jobs. It is safe for concurrent use, by several processes too.
type Ledger struct {
	path    string
	maxSize int64
	timeout time.Duration
	turn    chan struct{} // full while a call of this Ledger holds the lock or waits for it
}

// Entry is one line of the ledger.
type Entry struct {
	Job    string          `json:"job"`
	Key    string          `json:"key,omitempty"` // AppendOnce's key, "" for Append
	Time   time.Time       `json:"time"`          // when it was appended
	Report json.RawMessage `json:"report"`
}

// DamageError tells of lines that were skipped because they are not what was once written. What was returned beside it is
// right but may not be all.
type DamageError struct {
	Path  string
	Lines int
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("read %s: %d damaged lines skipped", e.Path, e.Lines)
}

// Open returns the ledger at path. It touches no file; the first append creates it with mode 0600 and, where it is
// missing, its directory with mode 0700.
func Open(path string) *Ledger {
	return &Ledger{path: path, maxSize: maxSize, timeout: lockTimeout, turn: make(chan struct{}, 1)}
}

// Append writes v as JSON under the job's id. It is on disk when Append returns nil; after an error it may be there or not,
// but never in part. ctx bounds the wait for other writers only.
func (l *Ledger) Append(ctx context.Context, job string, v any) error {
	return l.append(ctx, job, "", v)
}

// AppendOnce is Append unless the job has an entry with the same key already, such as its run count or start time. It is
// for a host that died between the append and forgetting the job, and looks back over 1 MB: the ends of some 700
// other jobs.
func (l *Ledger) AppendOnce(ctx context.Context, job, key string, v any) error {
	if key == "" {
		return fmt.Errorf("append job %s to %s: empty key", job, l.path)
	}
	return l.append(ctx, job, key, v)
}

func (l *Ledger) append(ctx context.Context, job, key string, v any) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("append job %s to %s: %w", job, l.path, err)
		}
	}()
	if err := hostapi.CheckJobID(job); err != nil {
		return err
	}
	report, err := json.Marshal(v)
	if err != nil {
		return err
	}
	line, err := formatLine(Entry{Job: job, Key: key, Time: time.Now().UTC(), Report: report})
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
	if key != "" {
		if there, err := w.has(job, key); there || err != nil {
			return err
		}
	}
	return w.append(line, l.maxSize)
}

// Last returns the report in the newest entry of the job, false when there is none. When the file is damaged somewhere after
// that entry, or the job is not found in a damaged file, a *DamageError comes with it.
func (l *Ledger) Last(job string) (report json.RawMessage, found bool, err error) {
	files, err := l.files()
	if err != nil {
		return nil, false, err
	}
	defer files.close()
	prefix, damaged := linePrefix(job, ""), 0
	for _, f := range files {
		for line, err := range linesBackward(f, 0) {
			if err != nil {
				return nil, false, err
			}
			switch {
			case checkLine(line) != nil:
				damaged++
			case hasPrefix(line, prefix):
				e, err := parseLine(line)
				if err != nil {
					damaged++
					continue
				}
				return e.Report, true, l.damage(damaged)
			}
		}
	}
	return nil, false, l.damage(damaged)
}

// All calls yield for every entry, oldest first, until it returns false. Entries appended meanwhile may come or not.
// Damaged lines are skipped; a *DamageError tells how many.
func (l *Ledger) All(yield func(Entry) bool) error {
	files, err := l.files()
	if err != nil {
		return err
	}
	defer files.close()
	damaged := 0
	for i := len(files) - 1; i >= 0; i-- {
		for line, err := range lines(files[i]) {
			if err != nil {
				return errors.Join(err, l.damage(damaged))
			}
			e, err := parseLine(line)
			if err != nil {
				damaged++
				continue
			}
			if !yield(e) {
				return l.damage(damaged)
			}
		}
	}
	return l.damage(damaged)
}

func (l *Ledger) damage(lines int) error {
	if lines == 0 {
		return nil
	}
	return &DamageError{Path: l.path, Lines: lines}
}
