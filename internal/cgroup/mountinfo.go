package cgroup

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// mount is a mounted cgroup hierarchy.
type mount struct {
	point       string
	root        string // the directory of the hierarchy that is mounted there
	v2          bool
	controllers []string // v1: as the super options name them, co-mounted ones together
	options     []string // v2: the super options
}

// parseMountinfo returns the cgroup hierarchies of a /proc/PID/mountinfo (proc_pid_mountinfo(5)), in its order. A later
// mount on the same point hides an earlier one. Lines of other file systems may be of any length.
func parseMountinfo(text []byte) ([]mount, error) {
	var mounts []mount
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "\n")
		if len(line) == 0 {
			continue
		}
		// "31 23 0:28 / /mnt rw,relatime shared:1 - cgroup cgroup rw,cpu,cpuacct": any number of optional fields before " - ".
		before, after, ok := bytes.Cut(line, []byte(" - "))
		fields, super := bytes.Fields(before), bytes.Fields(after)
		if !ok || len(fields) < 6 || len(super) < 1 {
			return nil, fmt.Errorf("line %q: not a mount", line[:min(len(line), 200)])
		}
		m := mount{point: unescape(string(fields[4])), root: unescape(string(fields[3]))}
		mounts = removeMount(mounts, m.point)
		switch string(super[0]) {
		case "cgroup2":
			m.v2 = true
			if len(super) > 2 {
				m.options = strings.Split(string(super[len(super)-1]), ",")
			}
		case "cgroup":
			if len(super) > 2 {
				m.controllers = strings.Split(string(super[len(super)-1]), ",")
			}
		default:
			continue
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

func removeMount(mounts []mount, point string) []mount {
	for i := range mounts {
		if mounts[i].point == point {
			return append(mounts[:i], mounts[i+1:]...)
		}
	}
	return mounts
}

// unescape undoes mangle_path of the kernel: space, tab, newline and backslash are written as octal numbers.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
