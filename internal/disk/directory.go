package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// MakeDir makes a directory that everybody may enter, whatever the umask. A directory that is there
// stays as it is, and MakeDir fails where CheckDir does. MakeDir is idempotent.
func MakeDir(dir string) error {
	_, err := os.Lstat(dir)
	made := errors.Is(err, fs.ErrNotExist)
	if made {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = CheckDir(dir) // also of one that somebody made at this moment
	}
	if err == nil && made {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("directory %s: %w", dir, err)
	}
	return nil
}
