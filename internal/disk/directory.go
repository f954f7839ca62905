package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// MakeDir creates a directory with that mode, regardless of the umask. An existing directory stays
// unchanged. MakeDir fails if CheckDir does. MakeDir is idempotent.
func MakeDir(dir string, mode fs.FileMode) error {
	_, err := os.Lstat(dir)
	made := errors.Is(err, fs.ErrNotExist)
	if made {
		err = os.MkdirAll(dir, mode)
	}
	if err == nil {
		err = CheckDir(dir) // even if somebody else has just created it
	}
	if err == nil && made {
		err = os.Chmod(dir, mode)
	}
	if err != nil {
		return fmt.Errorf("directory %s: %w", dir, err)
	}
	return nil
}
