package cgroup

import "github.com/hookhost/hookhost/internal/kernfs"

// DevicesAt returns where the devices are denied that the job may not open: the absolute path of its directory in the v2
// tree, where a program can be attached, on hybrid nodes too; without a v2 tree, its directory in the hierarchy of the v1
// devices controller. Both are zero where the node has neither. It touches no file.
func (j *Job) DevicesAt() (v2 string, v1 *kernfs.FS) {
	if d, ok := j.v2(); ok {
		return d.Path("."), nil
	}
	if d, ok := j.with("devices"); ok {
		return "", d.FS
	}
	return "", nil
}
