package cgroup

import (
	"bufio"
	"bytes"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Mount is a mounted cgroup hierarchy.
type Mount struct {
	Point    string
	Root     string // the directory of the hierarchy that is mounted at Point
	V2       bool
	ReadOnly bool     // applies to the mount; the file system may still be writable
	Options  []string // of the file system, on v2

	controllers []string // v1: from the options of the file system; several if mounted together
}

// Mounts returns the cgroup hierarchies in the mount table of this process (proc_pid_mountinfo(5)),
// in its order. A later mount on the same point hides an earlier one.
func Mounts(proc *kernfs.FS) ([]Mount, error) {
	const table = "self/mountinfo"
	text, err := proc.ReadFile(table)
	if err != nil {
		return nil, err
	}
	mounts, err := parseMountinfo(text)
	if err != nil {
		return nil, &kernfs.ParseError{File: proc.Path(table), Err: err}
	}
	return mounts, nil
}

// parseMountinfo skips lines that are too long for the library. Overlay mounts have such lines, but
// cgroup mounts do not.
func parseMountinfo(text []byte) ([]Mount, error) {
	var short []byte
	for line := range bytes.Lines(text) {
		if len(line) < bufio.MaxScanTokenSize {
			short = append(short, line...)
		}
	}
	all, err := mountinfo.GetMountsFromReader(bytes.NewReader(short), nil)
	if err != nil {
		return nil, err
	}
	var mounts []Mount
	for _, i := range all {
		mounts = slices.DeleteFunc(mounts, func(m Mount) bool { return m.Point == i.Mountpoint })
		m := Mount{Point: i.Mountpoint, Root: i.Root, V2: i.FSType == "cgroup2",
			ReadOnly: slices.Contains(strings.Split(i.Options, ","), "ro")}
		options := strings.Split(i.VFSOptions, ",")
		switch i.FSType {
		case "cgroup2":
			m.Options = options
		case "cgroup":
			m.controllers = options
		default:
			continue
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}
