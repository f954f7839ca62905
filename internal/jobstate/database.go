package jobstate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// schemaVersion is stored in bucket meta. It goes up when a Record written by this code would be misread by older
// code; adding a field is no such change.
const schemaVersion = 1

var (
	metaBucket    = []byte("meta")    // version: schemaVersion in decimal
	jobsBucket    = []byte("jobs")    // job id: record; its sequence numbers the jobs of `hookhost run`
	damagedBucket = []byte("damaged") // job id and time: what was stored instead of a record
	versionKey    = []byte("version")
)

// database is jobs.db, open for one transaction. The caller holds the Store's lock.
type database struct {
	path  string
	file  *os.File // bbolt's own; known even when bbolt panics while opening
	db    *bbolt.DB
	tx    *bbolt.Tx
	found stamp // of the file as it was opened
	// held are the records that were read and stored, by job id, as they are once the transaction is through; nil for none.
	held map[string][]byte
	// damage is set by a panic inside bbolt: its mutexes may be held for ever, so nothing of it is called again.
	damage *damageError
}

// options returns how bbolt is opened, once per transaction, which is not what its defaults are made for:
//   - The free list is stored (NoFreelistSync false). Without it every open walks the whole tree to find the free
//     pages, in a goroutine whose panics nobody can recover; writing it costs one page of those that are synced anyway.
//   - It is kept as an array: it is read anew each time, which is a copy; the hashmap would have to be built each time.
//   - No initial mapping: the file grows to the size of the mapping, and 32 kB hold a dozen jobs.
//   - 4 kB pages everywhere: on a kernel with 64 kB pages a commit would write 16 times as much.
//   - No statistics: nobody reads them.
//
// Sync is on, always.
func (d *database) options(ctx context.Context, readOnly bool, vet func(*os.File) error) *bbolt.Options {
	return &bbolt.Options{
		Timeout:      time.Second, // the file is locked by then
		ReadOnly:     readOnly,
		FreelistType: bbolt.FreelistArrayType,
		PageSize:     4096,
		NoStatistics: true,
		OpenFile: func(path string, flag int, perm fs.FileMode) (*os.File, error) {
			// Never O_CREATE: bbolt fills an empty file in several writes, and a crash between them leaves half a file.
			f, err := os.OpenFile(path, flag&^os.O_CREATE|unix.O_NOFOLLOW, perm)
			if err != nil {
				return nil, err
			}
			if err = checkFile(f); err == nil {
				// Taken now, not when bbolt does: vet must not read what another program is writing.
				err = lockDatabase(ctx, f)
			}
			if err == nil {
				err = vet(f)
			}
			if err != nil {
				f.Close()
				return nil, err
			}
			d.file, d.found = f, stampOf(f)
			return f, nil
		},
	}
}

// openDatabase begins a transaction on the file at path. vet looks at the open file before bbolt does. It fails with an
// error that wraps fs.ErrNotExist when there is no file, with *damageError when it is damaged, with *VersionError when
// later code wrote it. After a failure nothing is open.
func openDatabase(ctx context.Context, path string, writable bool, vet func(*os.File) error) (*database, error) {
	d := &database{path: path, held: map[string][]byte{}}
	err := d.guard(func() (err error) {
		if d.db, err = bbolt.Open(path, 0o600, d.options(ctx, !writable, vet)); err != nil {
			return err
		}
		if d.tx, err = d.db.Begin(writable); err != nil {
			return err
		}
		return d.checkSchema()
	})
	switch {
	case err == nil:
		return d, nil
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		err = &damageError{err}
	}
	d.close()
	return nil, fmt.Errorf("open %s: %w", path, err)
}

func (d *database) checkSchema() error {
	m, jobs := d.tx.Bucket(metaBucket), d.tx.Bucket(jobsBucket)
	if m == nil || jobs == nil {
		return &damageError{errors.New("not a file of job records")}
	}
	text := string(m.Get(versionKey))
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil || version == 0 {
		return &damageError{fmt.Errorf("schema version %q", text)}
	}
	if version > schemaVersion {
		return &VersionError{Have: version, Know: schemaVersion, What: "schema"}
	}
	return nil
}

// commit ends the transaction; what it wrote is on disk afterwards.
func (d *database) commit() error {
	if err := d.guard(d.tx.Commit); err != nil {
		return fmt.Errorf("write %s: %w", d.path, err)
	}
	if touch(d.path, d.found) != nil {
		d.found = stamp{} // what is there cannot be told from what another writes at this moment
	}
	return nil
}

// close ends the transaction, dropping what was not committed, and closes the file.
func (d *database) close() {
	if d.damage != nil {
		if d.file != nil {
			// The mapping cannot be undone from here and would keep the lock of the closed file.
			flock(int(d.file.Fd()), unix.LOCK_UN)
			d.file.Close()
		}
		return
	}
	d.guard(func() error {
		if d.tx != nil {
			d.tx.Rollback() // ErrTxClosed after a commit
		}
		if d.db != nil {
			return d.db.Close()
		}
		return nil
	})
}

// guard calls op, which calls bbolt, and turns a panic or a fault in the mapped file into a *damageError. check has seen
// the file before, but a disk can fail afterwards and somebody can truncate the file under us.
func (d *database) guard(op func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			d.damage = &damageError{fmt.Errorf("panic: %v", r)}
			err = d.damage
		}
	}()
	return op()
}

// record returns a copy of what is stored for job id, nil when there is nothing.
func (d *database) record(id string) (b []byte, err error) {
	err = d.guard(func() error {
		if v := d.tx.Bucket(jobsBucket).Get([]byte(id)); v != nil {
			b = append([]byte{}, v...)
		}
		d.held[id] = b
		return nil
	})
	return b, err
}

// records calls visit with a copy of every stored record, in the order of the ids.
func (d *database) records(visit func(id string, b []byte)) error {
	type stored struct {
		id string
		b  []byte
	}
	var all []stored
	err := d.guard(func() error {
		return d.tx.Bucket(jobsBucket).ForEach(func(k, v []byte) error {
			if v != nil { // nil is a bucket, which later code may have put there
				all = append(all, stored{string(k), append([]byte{}, v...)})
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	for _, s := range all {
		visit(s.id, s.b)
	}
	return nil
}

// store keeps b for job id; nil deletes.
func (d *database) store(id string, b []byte) error {
	return d.guard(func() error {
		d.held[id] = b
		if b == nil {
			return d.tx.Bucket(jobsBucket).Delete([]byte(id))
		}
		return d.tx.Bucket(jobsBucket).Put([]byte(id), b)
	})
}

// setAside moves a record into the damaged bucket.
func (d *database) setAside(r damagedRecord) error {
	return d.guard(func() error {
		d.held[r.id] = nil
		damaged, err := d.tx.CreateBucketIfNotExists(damagedBucket)
		if err != nil {
			return err
		}
		key := r.id + " " + time.Now().UTC().Format(time.RFC3339Nano)
		if err := damaged.Put([]byte(key), r.b); err != nil {
			return err
		}
		return d.tx.Bucket(jobsBucket).Delete([]byte(r.id))
	})
}

func (d *database) nextSequence() (n uint64, err error) {
	err = d.guard(func() error {
		n, err = d.tx.Bucket(jobsBucket).NextSequence()
		return err
	})
	return n, err
}
