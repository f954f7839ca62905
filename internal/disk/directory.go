package disk

import (
	"errors"
	"io/fs"
	"os"
)

// MakeDir makes a directory that everybody may enter, whatever the umask. A directory that is there
// stays as it is. MakeDir is idempotent.
func MakeDir(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}
