package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/kernfs"
	"github.com/hookhost/hookhost/internal/pbs"
)

// volume is the file system of the state directory.
type volume struct {
	dir      string // the directory
	path     string // the directory, or what of its path is there
	made     bool   // the directory is there
	foreign  error  // others than root can put files into it
	kind     int64  // f_type of statfs(2)
	readOnly bool
	free     int64 // bytes
	noInodes bool
	lock     error // of flock
}

// Least room in the state directory: what bbolt needs to grow, and where to begin to worry.
const (
	leastRoom  = 1 << 20
	littleRoom = 64 << 20
)

// remote are file systems over a network, temporary those that are gone at the next boot (linux/magic.h and the file systems'
// own headers).
var (
	remote = map[int64]string{0x6969: "NFS", 0xff534d42: "CIFS", 0xfe534d42: "SMB", 0x517b: "SMB", 0x0bd00bd0: "Lustre", 0x47504653: "GPFS",
		0x00c36400: "Ceph", 0x5346414f: "AFS", 0x01021997: "9P", 0x65735546: "FUSE", 0x19830326: "BeeGFS", 0x013111a8: "OrangeFS"}
	temporary = map[int64]string{0x01021994: "tmpfs", 0x858458f6: "ramfs"}
)

func examineState(dir string) finding {
	v, err := lookAtVolume(dir)
	if err != nil {
		return degraded("state directory", err.Error(), "name another one with --state or HOOKHOST_STATE")
	}
	return v.examine()
}

func lookAtVolume(dir string) (v volume, err error) {
	v = volume{dir: dir, path: dir, made: true}
	for {
		info, err := os.Stat(v.path)
		if err == nil && !info.IsDir() {
			return v, fmt.Errorf("%s is not a directory", v.path)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || v.path == "/" {
			return v, err
		}
		v.path, v.made = filepath.Dir(v.path), false
	}
	if v.made {
		v.foreign = jobstate.CheckDir(dir)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(v.path, &st); err != nil {
		return v, fmt.Errorf("statfs %s: %w", v.path, err)
	}
	v.kind, v.readOnly = int64(st.Type)&math.MaxUint32, st.Flags&unix.ST_RDONLY != 0
	v.free, v.noInodes = int64(st.Bavail)*st.Bsize, st.Files > 0 && st.Ffree == 0
	f, err := os.Open(v.path)
	if err != nil {
		return v, err
	}
	defer f.Close() // which unlocks
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		v.lock = err
	}
	return v, nil
}

func (v volume) examine() finding {
	const what = "state directory"
	const elsewhere = "put it on a local disk: --state or HOOKHOST_STATE"
	name := v.dir
	if !v.made {
		name += " (it is not made yet)"
	}
	switch {
	case v.foreign != nil:
		return blocking(what, fmt.Sprintf("%s: %v", name, v.foreign), "chown root and chmod 0700 it, once you know who has written there")
	case v.readOnly:
		return blocking(what, name+" is on a file system that is mounted read-only", "remount it, or "+elsewhere)
	case v.free < leastRoom || v.noInodes:
		return blocking(what, name+" is on a file system that is full", "make room, or "+elsewhere)
	case v.lock != nil:
		return blocking(what, fmt.Sprintf("%s cannot be locked: %v", name, v.lock), elsewhere)
	case remote[v.kind] != "":
		return degraded(what, fmt.Sprintf("%s is on %s: locks and writes depend on a server, and no two nodes may share it", name, remote[v.kind]), elsewhere)
	case temporary[v.kind] != "":
		return degraded(what, fmt.Sprintf("%s is on %s: reports and the offline mark are lost at the next boot", name, temporary[v.kind]), elsewhere)
	case v.free < littleRoom:
		return degraded(what, fmt.Sprintf("%s has %s left", name, pbs.Size(v.free).KB()), "make room, or "+elsewhere)
	}
	return ok(what, name)
}

// examineClock tells whether the time of a process and the time since boot are of one clock: a job's processes are known by it.
func examineClock(procfs *kernfs.FS) finding {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	uptime := ""
	if b, readErr := procfs.ReadFile("uptime"); readErr == nil {
		uptime = string(b)
	}
	if err != nil {
		return degraded("clock", "CLOCK_BOOTTIME: "+err.Error(), "Linux 2.6.39 or newer")
	}
	return judgeClock(time.Duration(ts.Nano()), uptime, time.Now())
}

func judgeClock(sinceBoot time.Duration, uptime string, now time.Time) finding {
	const what = "clock"
	first, _, _ := strings.Cut(uptime, " ")
	seconds, err := strconv.ParseFloat(first, 64)
	switch {
	case err != nil:
		return degraded(what, "/proc/uptime cannot be read", "mount /proc")
	case math.Abs(sinceBoot.Seconds()-seconds) > 2:
		return degraded(what, fmt.Sprintf("this process counts %.0f s since boot, /proc %.0f s: it is in a time namespace of its own", sinceBoot.Seconds(), seconds), "run hookhost in the host's time namespace")
	case now.Year() < 2025:
		return degraded(what, "it is "+now.Format(time.DateTime)+" here: times in reports will be wrong", "set the clock before the daemon starts (chrony, time-sync.target)")
	}
	return ok(what, "time since boot and time of day are sound")
}

func examineKernelLog() finding {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return degraded("kernel log", "/dev/kmsg: "+err.Error()+": reports of OOM kills will not name the process", "give the daemon CAP_SYSLOG, and its container /dev/kmsg")
	}
	unix.Close(fd)
	return ok("kernel log", "reports of OOM kills name the process")
}
