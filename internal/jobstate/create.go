package jobstate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
)

// createDatabase puts a new file at path, with job numbers to start after sequence. Whatever happens, path is afterwards
// missing or whole.
func createDatabase(path string, sequence uint64) (err error) {
	fresh := path + ".new"
	defer func() {
		if err != nil {
			err = fmt.Errorf("create %s: %w", path, errors.Join(err, removeIfThere(fresh)))
		}
	}()
	if err := removeIfThere(fresh); err != nil {
		return err
	}
	db, err := bbolt.Open(fresh, 0o600, &bbolt.Options{PageSize: 4096, Timeout: time.Second})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		m, err := tx.CreateBucket(metaBucket)
		if err != nil {
			return err
		}
		if err := m.Put(versionKey, strconv.AppendUint(nil, schemaVersion, 10)); err != nil {
			return err
		}
		jobs, err := tx.CreateBucket(jobsBucket)
		if err != nil {
			return err
		}
		return jobs.SetSequence(sequence)
	})
	if cerr := db.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// syncDir makes a rename in dir survive a power loss.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
