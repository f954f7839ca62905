package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hookhost/hookhost/internal/disk"
	"github.com/hookhost/hookhost/internal/nodestate"
	"github.com/hookhost/hookhost/internal/pbs"
)

// volume is the file system of a directory of root's: the state directory, or a base of private
// ones.
type volume struct {
	dir      string // the directory
	made     bool   // it exists
	foreign  error  // users other than root can write files into it
	kind     int64  // f_type of statfs(2)
	readOnly bool
	free     int64 // bytes
	noInodes bool
}

// The minimum room for writing files, and the threshold for a warning about the state directory.
const (
	leastRoom  = 1 << 20
	littleRoom = 64 << 20
)

// Network file systems, and those that do not outlive a boot (linux/magic.h and the file systems'
// own headers).
var (
	remote = map[int64]string{
		0x6969: "NFS", 0xff534d42: "CIFS", 0xfe534d42: "SMB", 0x517b: "SMB", 0x0bd00bd0: "Lustre",
		0x47504653: "GPFS", 0x00c36400: "Ceph", 0x5346414f: "AFS", 0x01021997: "9P", 0x65735546: "FUSE",
		0x19830326: "BeeGFS", 0x013111a8: "OrangeFS",
	}
	temporary = map[int64]string{0x01021994: "tmpfs", 0x858458f6: "ramfs"}
)

func examineState(dir string) Finding {
	v, err := readVolume(dir)
	if err != nil {
		return degraded("state directory", err.Error(), "name another one with --state or HOOKHOST_STATE")
	}
	return v.examine()
}

// examineOffline reports why hookhost has taken vnodes of this host offline. An administrator may
// have brought them back since. Their comments name the remedy.
func examineOffline(dir string) (findings []Finding) {
	causes, err := nodestate.Dir(dir).Offline()
	if err != nil {
		return nil // not root
	}
	for _, cause := range slices.Sorted(maps.Keys(causes)) {
		c := causes[cause]
		findings = append(findings, degraded("vnodes",
			fmt.Sprintf("taken offline at %s: %s", c.Since.Format(time.DateTime), c.Comment), ""))
	}
	return findings
}

// readVolume queries the file system of the directory, or of the existing part of its path.
func readVolume(dir string) (v volume, err error) {
	v = volume{dir: dir, made: true}
	path := dir
	info, err := os.Stat(path)
	for errors.Is(err, fs.ErrNotExist) && path != "/" {
		path, v.made = filepath.Dir(path), false
		info, err = os.Stat(path)
	}
	if err != nil {
		return v, err
	}
	if !info.IsDir() {
		return v, fmt.Errorf("%s is not a directory", path)
	}
	if v.made {
		v.foreign = disk.CheckDir(dir)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return v, fmt.Errorf("statfs %s: %w", path, err)
	}
	v.kind, v.readOnly = int64(st.Type)&math.MaxUint32, st.Flags&unix.ST_RDONLY != 0
	v.free, v.noInodes = int64(st.Bavail)*st.Bsize, st.Files > 0 && st.Ffree == 0
	return v, nil
}

func (v volume) examine() Finding {
	const what = "state directory"
	const elsewhere = "put it on a local disk: --state or HOOKHOST_STATE"
	name := v.dir
	if !v.made {
		name += " (not created yet)"
	}
	switch {
	case v.foreign != nil:
		return blocking(what, fmt.Sprintf("%s: %v", name, v.foreign),
			"chown root and chmod 0700 it, when you know who wrote there")
	case v.readOnly:
		return blocking(what, name+" is on a file system that is mounted read-only", "remount it, or "+elsewhere)
	case v.free < leastRoom || v.noInodes:
		return blocking(what, name+" is on a file system that is full", "make room, or "+elsewhere)
	case remote[v.kind] != "":
		return degraded(what,
			fmt.Sprintf("%s is on %s: writes depend on a server, and no two nodes may share it",
				name, remote[v.kind]), elsewhere)
	case temporary[v.kind] != "":
		return degraded(what, fmt.Sprintf("%s is on %s: reports and the offline mark are lost at the next boot",
			name, temporary[v.kind]), elsewhere)
	case v.free < littleRoom:
		return degraded(what, fmt.Sprintf("%s has %s left", name, pbs.Size(v.free).Text()), "make room, or "+elsewhere)
	}
	return ok(what, name)
}

func examineKernelLog() Finding {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return degraded("kernel log", "/dev/kmsg: "+err.Error()+": reports of OOM kills will not name the process",
			"give the daemon CAP_SYSLOG, and its container /dev/kmsg")
	}
	unix.Close(fd)
	return ok("kernel log", "reports of OOM kills name the process")
}
