package cgroup

import (
	"bytes"

	"github.com/containerd/cgroups/v3"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// BySystemd returns the cgroup in which systemd manages the calling process. It is in systemd's v1
// hierarchy if there is one, else in the v2 tree. The result is "" if it cannot be read.
func BySystemd(proc *kernfs.FS) string {
	text, err := proc.ReadFile("self/cgroup")
	if err != nil {
		return ""
	}
	v1, v2, err := cgroups.ParseCgroupFromReaderUnified(bytes.NewReader(text))
	if err != nil {
		return ""
	}
	if at, named := v1[systemdHierarchy]; named {
		return at
	}
	return v2
}
