package kernfstest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// identity is a real file in memory that represents a fake one if the program needs a descriptor.
// The program locks it with flock, or names it in cgroup.event_control. The file is created when a
// descriptor is first requested.
type identity struct {
	file *os.File // closed by its finalizer
	ino  uint64
}

// open returns a separate descriptor for each call, because flock distinguishes them.
func (id *identity) open() (int, error) {
	if id.file == nil {
		fd, err := unix.MemfdCreate("kernfstest", unix.MFD_CLOEXEC)
		if err != nil {
			return -1, err
		}
		id.file = os.NewFile(uintptr(fd), "kernfstest")
		if id.ino, err = inode(fd); err != nil {
			return -1, err
		}
	}
	return unix.Open(fmt.Sprintf("/proc/self/fd/%d", id.file.Fd()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

func inode(fd int) (uint64, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return st.Ino, err
}

// descriptor is the descriptor of an open fake file, if one was requested.
type descriptor struct {
	fd   int
	made bool
}

func (d *descriptor) get(id *identity) uintptr {
	if !d.made {
		fd, err := id.open()
		if err != nil {
			return ^uintptr(0) // as of a closed file
		}
		d.fd, d.made = fd, true
	}
	return uintptr(d.fd)
}

func (d *descriptor) close() {
	if d.made {
		unix.Close(d.fd)
		d.made = false
	}
}

// Fd returns a real descriptor that represents the directory.
func (d *dir) Fd() uintptr {
	if d.group == nil {
		return ^uintptr(0)
	}
	k := d.group.h.k
	k.mu.Lock()
	defer k.mu.Unlock()
	return d.fd.get(d.group.identity(""))
}

// Fd returns a real descriptor that represents the file in cgroup.event_control, and for flock and
// fchmod.
func (f *file) Fd() uintptr {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	return f.fd.get(f.group.identity(f.knob.name))
}

// identity returns the identity of g's file with that name, or of g itself if name is "".
func (g *cgroup) identity(name string) *identity {
	if g.ids[name] == nil {
		g.ids[name] = &identity{}
	}
	return g.ids[name]
}
