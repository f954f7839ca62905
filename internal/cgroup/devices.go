package cgroup

import "github.com/hookhost/hookhost/internal/kernfs"

// DevicesAt returns the place of the filter of the job's devices. On v2 and hybrid nodes that is
// the absolute path of the job's directory in the v2 tree, where a program can be attached. On v1
// it is the job's directory in the hierarchy of the v1 devices controller. Both are zero if the
// node has neither. DevicesAt touches no file.
func (j *Job) DevicesAt() (v2 string, v1 *kernfs.FS) {
	if d, ok := j.v2(); ok {
		return d.Path("."), nil
	}
	if d, ok := j.with("devices"); ok {
		return "", d.FS
	}
	return "", nil
}
