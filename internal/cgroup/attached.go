package cgroup

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// attachedMark is the extended attribute of a job's cgroup that holds SetAttached's number.
const attachedMark = "trusted.hookhost.attached"

// SetAttached keeps with the job's cgroup how many processes were taken in that MoM did not start. It is apart from the Record since it
// changes with each of them, and nothing on a disk has to.
func (j *Job) SetAttached(n int) error {
	return j.SetMark(attachedMark, strconv.AppendInt(nil, int64(n), 10))
}

// Attached returns what SetAttached kept, 0 where nothing is kept. It fails with ErrNotFound when the job has no cgroup.
func (j *Job) Attached() (int, error) {
	b, err := j.Mark(attachedMark)
	if errors.Is(err, unix.ENODATA) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(string(b))
	if err != nil {
		return 0, fmt.Errorf("attached to job %s: %w", j.id, err)
	}
	return n, nil
}
