package jobstate

import (
	"fmt"
	"os"

	"github.com/hookhost/hookhost/internal/disk"
)

// MakeDir creates dir with mode 0700 if it is missing, and fails if CheckDir does.
func MakeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := CheckDir(dir); err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	return nil
}

// CheckDir refuses a directory in which another user could replace our files. Hooks act as root on
// what these files say.
func CheckDir(dir string) error { return disk.CheckDir(dir) }
