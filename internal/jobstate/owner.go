package jobstate

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// MakeDir makes dir with mode 0700 where there is none, and fails where CheckDir does.
func MakeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := CheckDir(dir); err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	return nil
}

// CheckDir refuses a directory in which somebody else can put a file in the place of ours. Hooks
// run as root on what these files say.
func CheckDir(dir string) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if perm := st.Mode & 0o7777; perm&0o022 != 0 {
		return fmt.Errorf("mode %04o lets others write to it", perm)
	}
	if uid := int(st.Uid); uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("owned by uid %d, want 0 or %d", uid, os.Geteuid())
	}
	return nil
}
