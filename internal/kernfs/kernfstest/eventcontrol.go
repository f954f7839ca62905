package kernfstest

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// storeEventControl is memcg_write_event_control. It takes "EVENTFD FD", where FD is of
// memory.oom_control. The eventfd is a real one of this process. Thresholds and pressure levels are
// not implemented.
func storeEventControl(g *cgroup, v string) error {
	fields := strings.Fields(v)
	if len(fields) < 2 {
		return unix.EINVAL
	}
	event, err := strconv.Atoi(fields[0])
	if err != nil {
		return unix.EINVAL
	}
	target, err := strconv.Atoi(fields[1])
	if err != nil {
		return unix.EINVAL
	}
	ino, err := inode(target)
	if err != nil {
		return unix.EBADF
	}
	if g.fileOf(ino) != "memory.oom_control" {
		return unix.EINVAL
	}
	// The kernel holds a reference to the eventfd, so the program may close its descriptor.
	fd, err := unix.FcntlInt(uintptr(event), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return unix.EBADF
	}
	g.mem.listeners = append(g.mem.listeners, os.NewFile(uintptr(fd), "eventfd"))
	return nil
}

// fileOf returns the name of g's file with the inode ino, or "".
func (g *cgroup) fileOf(ino uint64) string {
	for name, id := range g.ids {
		if id.ino == ino {
			return name
		}
	}
	return ""
}

// signalOOM wakes the listeners of memory.oom_control.
func (m *memory) signalOOM() {
	for _, event := range m.listeners {
		// A write fails only if 2^64-1 signals are unread.
		_, _ = event.Write(binary.NativeEndian.AppendUint64(nil, 1))
	}
}

// closeListeners signals all listeners once more, as the kernel does when the cgroup is removed
// (memcg_event_remove).
func (m *memory) closeListeners() {
	m.signalOOM()
	for _, event := range m.listeners {
		event.Close()
	}
	m.listeners = nil
}
