package jobstate

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// CheckDir refuses a state directory in which somebody else can put a file in the place of ours: hooks run as root on
// what these files say. It is what Open begins with.
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
	return checkOwner(&st)
}

// checkFile refuses a file that somebody else owns.
func checkFile(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	return checkOwner(&st)
}

func checkOwner(st *unix.Stat_t) error {
	if uid := int(st.Uid); uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("owned by uid %d, want 0 or %d", uid, os.Geteuid())
	}
	return nil
}
