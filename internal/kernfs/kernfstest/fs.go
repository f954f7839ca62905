package kernfstest

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// cgroupfs is /sys/fs/cgroup.
type cgroupfs struct{ k *Kernel }

// target is what a name refers to: a cgroup, one of its files, or the tmpfs above the hierarchies.
type target struct {
	group *cgroup // nil for the tmpfs
	knob  *knob   // nil for a directory
}

// find resolves name; the caller holds k.mu.
func (k *Kernel) find(name string) (target, error) {
	var parts []string
	if name != "." {
		parts = strings.Split(name, "/")
	}
	var g *cgroup
	if k.top == "cgroup2" {
		g = k.hierarchies[0].root
	} else {
		if len(parts) == 0 {
			return target{}, nil
		}
		dir := parts[0]
		if to, ok := k.links[dir]; ok {
			dir = to
		}
		i := slices.IndexFunc(k.hierarchies, func(h *hierarchy) bool { return h.dir == dir })
		if i < 0 {
			return target{}, unix.ENOENT
		}
		g, parts = k.hierarchies[i].root, parts[1:]
	}
	for i, part := range parts {
		switch child := g.children[part]; {
		case child != nil:
			g = child
		case g.knob(part) == nil:
			return target{}, unix.ENOENT
		case i+1 < len(parts):
			return target{}, unix.ENOTDIR
		default:
			return target{group: g, knob: g.knob(part)}, nil
		}
	}
	return target{group: g}, nil
}

// OpenFile opens a directory or an interface file. It checks no permissions, because the caller
// counts as root. The kernel lets root open a file that cannot be read, and answers the read with
// EINVAL.
func (c *cgroupfs) OpenFile(name string, flag int) (kernfs.File, error) {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	t, err := c.k.find(name)
	if err != nil {
		return nil, err
	}
	if err := c.k.fail("open", name); err != nil {
		return nil, err
	}
	if t.knob == nil {
		if flag&(unix.O_WRONLY|unix.O_RDWR) != 0 {
			return nil, unix.EISDIR
		}
		return &dir{group: t.group, entries: c.k.entries(t.group)}, nil
	}
	return &file{k: c.k, target: t, name: name, flag: flag}, nil
}

func (c *cgroupfs) Mkdir(name string, _ fs.FileMode) error {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	err := c.k.fail("mkdir", name)
	if err == nil {
		err = c.k.mkdir(name)
	}
	c.k.record(Op{Op: "mkdir", Path: name, Err: err})
	return err
}

func (k *Kernel) mkdir(name string) error {
	if _, err := k.find(name); err == nil {
		return unix.EEXIST
	}
	t, err := k.find(path.Dir(name))
	switch {
	case err != nil:
		return err
	case t.knob != nil:
		return unix.ENOTDIR
	case t.group == nil:
		return unix.EROFS // systemd remounts the tmpfs read-only
	}
	defer k.wake()
	return t.group.mkdir(path.Base(name))
}

func (c *cgroupfs) Rmdir(name string) error {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	err := c.k.fail("rmdir", name)
	if err == nil {
		err = c.k.rmdir(name)
	}
	c.k.record(Op{Op: "rmdir", Path: name, Err: err})
	return err
}

func (k *Kernel) rmdir(name string) error {
	t, err := k.find(name)
	switch {
	case err != nil:
		return err
	case t.knob != nil:
		return unix.ENOTDIR
	case t.group == nil:
		return unix.EBUSY
	}
	defer k.wake()
	return t.group.rmdir()
}

// Xattr reads an attribute of a cgroup directory. Files of cgroupfs can have attributes too, but no
// program here uses them.
func (c *cgroupfs) Xattr(name, attr string) ([]byte, error) {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	m, err := c.k.attributes(name)
	if err == nil {
		err = c.k.fail("getxattr", name)
	}
	if err != nil {
		return nil, err
	}
	v, ok := m[attr]
	if !ok {
		return nil, unix.ENODATA
	}
	return slices.Clone(v), nil
}

// SetXattr sets an attribute of a cgroup directory.
func (c *cgroupfs) SetXattr(name, attr string, value []byte) error {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	m, err := c.k.attributes(name)
	if err == nil {
		err = c.k.fail("setxattr", name)
	}
	if err == nil && len(value) > 1<<16 { // XATTR_SIZE_MAX
		err = unix.E2BIG
	}
	if err == nil {
		m[attr] = slices.Clone(value)
	}
	c.k.record(Op{Op: "setxattr", Path: name, Value: attr + "=" + string(value), Err: err})
	return err
}

// attributes is kernfs_xattr_handlers. It allows trusted.* and security.*, and user.* only on v2
// (KERNFS_ROOT_SUPPORT_USER_XATTR).
func (k *Kernel) attributes(name string) (map[string][]byte, error) {
	t, err := k.find(name)
	if err != nil {
		return nil, err
	}
	if t.group == nil || t.knob != nil {
		return nil, errors.ErrUnsupported
	}
	return t.group.xattrs, nil
}

// Stat returns the owner of a directory or a file.
func (c *cgroupfs) Stat(name string) (kernfs.Stat, error) {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	t, err := c.k.find(name)
	if err != nil || t.group == nil {
		return kernfs.Stat{}, err
	}
	return kernfs.Stat{UID: t.group.owners[t.file()], Dirs: len(t.group.children)}, nil
}

// Chown gives a directory or a file of a cgroup to a user.
func (c *cgroupfs) Chown(name string, uid int) error {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	t, err := c.k.find(name)
	if err == nil {
		err = c.k.fail("chown", name)
	}
	if err == nil && t.group == nil {
		err = unix.EROFS
	}
	if err == nil {
		t.group.owners[t.file()] = uid
	}
	c.k.record(Op{Op: "chown", Path: name, Value: strconv.Itoa(uid), Err: err})
	return err
}

// file returns the name of the interface file, or "" for a directory.
func (t target) file() string {
	if t.knob == nil {
		return ""
	}
	return t.knob.name
}
