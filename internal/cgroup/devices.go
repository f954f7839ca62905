package cgroup

import "github.com/hookhost/hookhost/internal/kernfs"

// DevicesAt returns where the filter of the job's devices is. On v2 and hybrid nodes that is the
// absolute path of the job's directory in the v2 tree, where a program can be attached. On v1 it is
// the job's directory in the hierarchy of the devices controller. Both results are zero if the node
// has neither. DevicesAt does not access any file.
func (j *Job) DevicesAt() (v2 string, v1 *kernfs.FS) {
	if d, ok := j.v2(); ok {
		return d.Path("."), nil
	}
	if d, ok := j.with("devices"); ok {
		return "", d.FS
	}
	return "", nil
}
