package mountns

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/disk"
)

// Directory is a directory that is private in a namespace.
type Directory struct {
	Path string
	From string // the directory that is mounted there; "" means a tmpfs
	// Size of the tmpfs in bytes; 0 means half of the node's memory. Options are further options
	// of mount(8) for it, separated by commas.
	Size    int64
	Options string
}

// Mount mounts the directory in the namespace of the calling thread. It refuses a path other than
// that of a directory of root with mode 1777, since another one may contain what a job needs.
func (d Directory) Mount() error {
	var st unix.Stat_t
	err := unix.Lstat(d.Path, &st)
	if err == nil {
		err = disk.CheckSticky(&st)
	}
	if err != nil {
		return &fs.PathError{Op: "private directory", Path: d.Path, Err: err}
	}
	if d.From != "" {
		if err := unix.Mount(d.From, d.Path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s to %s: %w", d.From, d.Path, err)
		}
		return nil
	}
	flags, data := uintptr(unix.MS_NOSUID|unix.MS_NODEV), "mode=1777"
	if d.Size > 0 {
		data += ",size=" + strconv.FormatInt(d.Size, 10)
	}
	for option := range strings.SplitSeq(d.Options, ",") {
		switch option {
		case "":
		case "noexec":
			flags |= unix.MS_NOEXEC
		default:
			data += "," + option
		}
	}
	if err := unix.Mount("tmpfs", d.Path, "tmpfs", flags, data); err != nil {
		return fmt.Errorf("mount tmpfs on %s with %s: %w", d.Path, data, err)
	}
	return nil
}

// Detach detaches what is mounted on path in the namespace of the calling thread, with everything
// below it. Idempotent.
func Detach(path string) error {
	for {
		switch err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err {
		case nil: // there may be another one below it
		case unix.EINVAL, unix.ENOENT:
			return nil
		default:
			return &fs.PathError{Op: "unmount", Path: path, Err: err}
		}
	}
}
