package kernfstest

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// listener is an eventfd that is told of what happens in a v1 memory cgroup.
type listener struct {
	event *os.File
	oom   bool
	// watched is the amount with a threshold.
	watched   func(*cgroup) int64
	threshold int64
	above     bool
}

// storeEventControl is memcg_write_event_control: "EVENTFD FD" where FD is of memory.oom_control,
// or "EVENTFD FD THRESHOLD" where it is of memory.usage_in_bytes or memory.memsw.usage_in_bytes.
// The eventfd is a real one of this process. Pressure levels are taken and never come.
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
	l := listener{}
	switch g.fileOf(ino) {
	case "memory.oom_control":
		l.oom = true
	case "memory.pressure_level":
	case "memory.usage_in_bytes":
		l.watched = (*cgroup).ram
	case "memory.memsw.usage_in_bytes":
		l.watched = (*cgroup).both
	default:
		return unix.EINVAL
	}
	if l.watched != nil {
		if len(fields) != 3 {
			return unix.EINVAL
		}
		if l.threshold, err = size(fields[2], "-1"); err != nil {
			return err
		}
		l.above = l.watched(g) > l.threshold
	}
	// The kernel holds the eventfd's file, so that the program may close its descriptor.
	fd, err := unix.FcntlInt(uintptr(event), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return unix.EBADF
	}
	l.event = os.NewFile(uintptr(fd), "eventfd")
	g.mem.listeners = append(g.mem.listeners, &l)
	return nil
}

// fileOf is the file of g that ino stands for; "" when none does.
func (g *cgroup) fileOf(ino uint64) string {
	for name, id := range g.ids {
		if id.ino == ino {
			return name
		}
	}
	return ""
}

// signalOOM wakes those who listen to memory.oom_control.
func (m *memory) signalOOM() {
	for _, l := range m.listeners {
		if l.oom {
			l.signal()
		}
	}
}

// signalThresholds wakes those whose threshold was crossed, upwards or downwards
// (cgroup-v1/memory.rst, 9).
func (g *cgroup) signalThresholds() {
	for _, l := range g.mem.listeners {
		if l.watched == nil {
			continue
		}
		if above := l.watched(g) > l.threshold; above != l.above {
			l.above = above
			l.signal()
		}
	}
}

// closeListeners tells everyone a last time, as the kernel does when the cgroup goes
// (memcg_event_remove).
func (m *memory) closeListeners() {
	for _, l := range m.listeners {
		l.signal()
		l.event.Close()
	}
	m.listeners = nil
}

func (l *listener) signal() {
	// A write fails only when 2^64-1 signals are unread.
	_, _ = l.event.Write(binary.NativeEndian.AppendUint64(nil, 1))
}
