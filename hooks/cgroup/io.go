package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/cgroup"
	"github.com/hookhost/hookhost/internal/config"
	"github.com/hookhost/hookhost/internal/kernfs"
)

// resolveIO turns the [io] max of the configuration into limits of devices, with the numbers that they have now. It
// refuses what the kernel would refuse at each begin: io.max takes whole disks (blkg_conf_open_bdev).
func (p *policy) resolveIO(sys *kernfs.FS) error {
	p.io = nil
	if !p.IO.Enabled {
		return nil
	}
	for _, text := range p.IO.Max {
		m, err := config.ParseIOMax(text)
		if err != nil {
			return fmt.Errorf("io.max: %w", err)
		}
		l := cgroup.IOLimit{Major: m.Major, Minor: m.Minor, ReadBytes: m.ReadBytes, WriteBytes: m.WriteBytes, ReadOps: m.ReadOps, WriteOps: m.WriteOps}
		if m.Path != "" {
			if l.Major, l.Minor, err = blockDevice(m.Path); err != nil {
				return fmt.Errorf("io.max %q: %w", text, err)
			}
		}
		// dev/block leads to partitions too, and those have a file that says so (Documentation/ABI/stable/sysfs-block).
		dir := fmt.Sprintf("dev/block/%d:%d", l.Major, l.Minor)
		switch number, err := sys.ReadFile(path.Join(dir, "partition")); {
		case err == nil && len(number) > 0:
			return fmt.Errorf("io.max %q: %d:%d is a partition; io.max takes whole disks", text, l.Major, l.Minor)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("io.max %q: %w", text, err)
		}
		for _, other := range p.io {
			if other.Major == l.Major && other.Minor == l.Minor {
				return fmt.Errorf("io.max %q: %d:%d has a limit already", text, l.Major, l.Minor)
			}
		}
		p.io = append(p.io, l)
	}
	return nil
}

// blockDevice returns the numbers of the block device at name, which may be a link.
func blockDevice(name string) (major, minor uint32, err error) {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return 0, 0, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, 0, fmt.Errorf("%s is no block device", name)
	}
	return unix.Major(st.Rdev), unix.Minor(st.Rdev), nil
}
