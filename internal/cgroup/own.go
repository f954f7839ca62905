package cgroup

import (
	"bytes"

	"github.com/containerd/cgroups/v3"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// BySystemd returns the cgroup that systemd has the calling process in: of systemd's own v1
// hierarchy if there is one, else of the v2 tree. The result is "" if that cannot be told.
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
