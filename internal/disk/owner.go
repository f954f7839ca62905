package disk

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// CheckOwner refuses a file that users other than root and this process's user can change. With an
// ACL the group bits are its mask, so they cover that too.
func CheckOwner(st *unix.Stat_t) error {
	if uid := int(st.Uid); uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("owned by uid %d", uid)
	}
	if perm := st.Mode & 0o7777; perm&0o022 != 0 {
		return fmt.Errorf("mode %04o lets others write to it", perm)
	}
	return nil
}

// CheckSticky refuses a directory in which users can rename or remove each other's files. It takes
// directories such as /tmp: root's, with mode 1777.
func CheckSticky(st *unix.Stat_t) error {
	const sticky = unix.S_IFDIR | unix.S_ISVTX | 0o777
	if st.Uid != 0 || st.Mode&sticky != sticky {
		return errors.New("not a directory of root with mode 1777")
	}
	return nil
}

// CheckDir is CheckOwner for a path that must be a directory, not a link to one.
func CheckDir(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.ENOTDIR
	}
	return CheckOwner(&st)
}
