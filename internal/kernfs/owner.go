package kernfs

import "golang.org/x/sys/unix"

// OwnerBackend is implemented by a Backend whose files have owners. Errors wrap the errno.
type OwnerBackend interface {
	Stat(name string) (Stat, error)
	Chown(name string, uid int) error
}

// Stat is what the kernel knows of a file or a directory.
type Stat struct {
	UID  int
	Dirs int // how many directories a directory of cgroupfs has
}

// Stat returns the owner of name, and how many directories it has. If the backend has no owners,
// the error is ErrUnsupported. Unlike a list, Stat does not wait for the lock of a directory.
func (f *FS) Stat(name string) (Stat, error) {
	return ask(f, "stat", name, func(b OwnerBackend, at string) (Stat, error) { return b.Stat(at) })
}

// Chown gives name to a user. Its group stays. The owner of a cgroup directory may create and
// remove directories in it, and list it.
func (f *FS) Chown(name string, uid int) error {
	return change(f, "chown", name, func(b OwnerBackend, at string) error { return b.Chown(at, uid) })
}

func (k *kernel) Stat(name string) (Stat, error) {
	fd, err := k.open(name, unix.O_PATH)
	if err != nil {
		return Stat{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return Stat{UID: int(st.Uid), Dirs: int(st.Nlink) - 2}, err // kernfs_refresh_inode
}

func (k *kernel) Chown(name string, uid int) error {
	fd, err := k.open(name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return uninterrupted(func() error { return unix.Fchownat(fd, "", uid, -1, unix.AT_EMPTY_PATH) })
}
