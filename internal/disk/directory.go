package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// MakeDir makes a directory with that mode, whatever the umask. A directory that is there stays as
// it is, and MakeDir fails where CheckDir does. MakeDir is idempotent.
func MakeDir(dir string, mode fs.FileMode) error {
	_, err := os.Lstat(dir)
	made := errors.Is(err, fs.ErrNotExist)
	if made {
		err = os.MkdirAll(dir, mode)
	}
	if err == nil {
		err = CheckDir(dir) // also of one that somebody made at this moment
	}
	if err == nil && made {
		err = os.Chmod(dir, mode)
	}
	if err != nil {
		return fmt.Errorf("directory %s: %w", dir, err)
	}
	return nil
}
