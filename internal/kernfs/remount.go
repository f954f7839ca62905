package kernfs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// RemountBackend is what a Backend adds when file systems are mounted in it. Errors wrap the errno.
type RemountBackend interface {
	Remount(name string, flags []string) error
}

// Remount gives the file system that is mounted at name the options flags, all of them words
// without a value. Its other own options are taken away, as `mount -o remount` does for all its
// mounts (fspick(2), Linux 5.2). Options of the mount point (nosuid) or of every file system (ro)
// stay. Remount is idempotent.
//
// An option that the file system does not know is EINVAL, and then nothing has changed. A directory
// at which nothing is mounted is EINVAL as well.
func (f *FS) Remount(name string, flags []string) error {
	return change(f, "remount", name, func(b RemountBackend, at string) error { return b.Remount(at, flags) })
}

func (k *kernel) Remount(name string, flags []string) error {
	dir, err := k.open(name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	fs, err := unix.Fspick(dir, "", unix.FSPICK_EMPTY_PATH|unix.FSPICK_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fs)
	for _, flag := range flags {
		if err := unix.FsconfigSetFlag(fs, flag); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	return unix.FsconfigReconfigure(fs)
}
