package kernfs

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// ErrUnsupported means that this kernel, or this backend, cannot do something.
var ErrUnsupported = errors.ErrUnsupported

// XattrBackend is implemented by a Backend whose directories have extended attributes. Errors wrap
// the errno.
type XattrBackend interface {
	Xattr(name, attr string) ([]byte, error)
	SetXattr(name, attr string, value []byte) error
}

// Xattr returns the extended attribute attr of name, such as "trusted.job" of a cgroup directory.
// If the attribute is not set, the error is ENODATA. If the backend has no attributes, it is
// ErrUnsupported.
func (f *FS) Xattr(name, attr string) ([]byte, error) {
	return ask(f, "getxattr "+attr, name, func(b XattrBackend, at string) ([]byte, error) { return b.Xattr(at, attr) })
}

// SetXattr sets the extended attribute attr of name to value, whether or not it exists. The kernel
// stores attributes of cgroup directories in memory until the directory is removed. trusted.*
// requires CAP_SYS_ADMIN.
func (f *FS) SetXattr(name, attr string, value []byte) error {
	return change(f, "setxattr "+attr, name, func(b XattrBackend, at string) error {
		return b.SetXattr(at, attr, value)
	})
}

const xattrSizeMax = 64 << 10 // XATTR_SIZE_MAX of linux/limits.h

func (k *kernel) Xattr(name, attr string) ([]byte, error) {
	fd, err := k.open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buffer := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buffer)
	n, err := unix.Fgetxattr(fd, attr, buffer[:])
	if err == nil {
		return slices.Clone(buffer[:n]), nil
	}
	if !errors.Is(err, unix.ERANGE) {
		return nil, err
	}
	b := make([]byte, xattrSizeMax)
	if n, err = unix.Fgetxattr(fd, attr, b); err != nil {
		return nil, err
	}
	return b[:n], nil
}

func (k *kernel) SetXattr(name, attr string, value []byte) error {
	fd, err := k.open(name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fsetxattr(fd, attr, value, 0)
}
