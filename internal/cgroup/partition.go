package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// An isolated job is a remote partition (cgroup-v2.rst, "Cpuset"; since Linux 6.7): its cpus are in
// no scheduling domain and nobody else's. Each directory from the top of the tree down to the job's
// must have the cpus in its cpuset.cpus.exclusive. The file takes nothing from anybody as long as
// there is no partition below.
const (
	partitionFile = "cpuset.cpus.partition"
	exclusiveFile = "cpuset.cpus.exclusive"
	isolated      = "isolated"
	member        = "member"
)

// partitionKnob is read for Limits. A partition that lost its cpus shows why, "isolated invalid
// (...)", and is none.
var partitionKnob = knob{file: partitionFile, optional: true, detail: true,
	set: func(l *Limits, text string) error { l.Isolated = text == isolated; return nil }}

var exclusiveKnob = knob{file: exclusiveFile, format: asSet}

// repartitions reports whether the partition has to be ended or made for from to become to.
func repartitions(from, to *Limits) (end, make bool) {
	same := from != nil && from.Isolated && to.Isolated && from.CPUs.Equal(to.CPUs)
	return from != nil && from.Isolated && !same, to.Isolated && !same
}

// endPartition makes a partition a plain cpuset, before anything else of it changes.
func endPartition(from, to *Limits) []write {
	if end, _ := repartitions(from, to); !end {
		return nil
	}
	return []write{
		{Controller: "cpuset", File: partitionFile, Value: member, Old: isolated, knob: &partitionKnob},
		{Controller: "cpuset", File: exclusiveFile, Value: "\n", Old: from.CPUs.String(), knob: &exclusiveKnob},
	}
}

// makePartition comes when the cpuset has its cpus.
func makePartition(from, to *Limits) []write {
	if _, make := repartitions(from, to); !make {
		return nil
	}
	exclusive, partition := "", ""
	if from != nil {
		exclusive, partition = "\n", member
	}
	return []write{
		{Controller: "cpuset", File: exclusiveFile, Value: to.CPUs.String(), Old: exclusive, knob: &exclusiveKnob},
		{Controller: "cpuset", File: partitionFile, Value: isolated, Old: partition, knob: &partitionKnob},
	}
}

// checkIsolated tells why a job cannot be isolated here.
func (j *Job) checkIsolated(l *Limits) error {
	if !l.Isolated {
		return nil
	}
	d, ok := j.with("cpuset")
	switch {
	case l.CPUs.IsEmpty():
		return errors.New("isolated without cpus of its own")
	case !ok:
		return nil // said by the caller
	case !d.h.v2:
		return fmt.Errorf("isolated cpus need cpuset on cgroup v2: %w", ErrUnsupported)
	}
	if !d.h.jobs.Exists(".") {
		if err := d.h.prepare(); err != nil {
			return err
		}
	}
	if !j.tree.Has(isolated) {
		return fmt.Errorf("isolated cpus: this kernel has no %s (Linux 6.7): %w", exclusiveFile, ErrUnsupported)
	}
	return nil
}

// freeCPUs fails with ErrTaken if cpus, beside those that the job has, are another job's alone. On
// v2 the attempt to have them would end that other job's isolation, although it gets this one
// nothing (seen on Linux 6.12).
func (j *Job) freeCPUs(cpus, own kernfs.IDSet) error {
	d, ok := j.with("cpuset")
	if !ok || !d.h.v2 || cpus.IsEmpty() {
		return nil
	}
	const file = "cpuset.cpus.effective"
	free, err := d.h.jobs.IDSet(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no jobs yet
	}
	if err != nil {
		return err
	}
	if wanting := cpus.Minus(free.Union(own)); !wanting.IsEmpty() {
		return fmt.Errorf("cpus %s: %s has only %s: %w", wanting, d.h.jobs.Path(file), free, ErrTaken)
	}
	return nil
}

// endInvalid makes a plain cpuset of a partition that has lost its cpus; it isolates nothing any
// more.
func (j *Job) endInvalid(old Limits) error {
	if old.Isolated {
		return nil
	}
	_, err := j.leavePartition()
	return err
}

// EndIsolation takes the cpus of an isolated job that is over: the job has no cpuset of its own any
// more. The cpus are nobody else's otherwise as long as the cgroup is there. A plain cpuset of
// these cpus would be in the way of the next isolated job (cpus_excl_conflict of
// kernel/cgroup/cpuset.c). EndIsolation is idempotent. A job without a cgroup is no mistake.
func (j *Job) EndIsolation() error {
	ended, err := j.leavePartition()
	if d, ok := j.with("cpuset"); ok && ended {
		err = errors.Join(err, d.Write("cpuset.cpus", "\n"))
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("end isolation of job %s: %w", j.id, err)
	}
	return nil
}

// leavePartition makes a plain cpuset of a partition, whether or not it has its cpus still, and
// reports whether it was one.
func (j *Job) leavePartition() (was bool, err error) {
	d, ok := j.with("cpuset")
	if !ok || !d.h.v2 {
		return false, nil
	}
	b, err := d.ReadFile(partitionFile)
	if gone(err) || err == nil && trim(b) == member {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, errors.Join(d.Write(partitionFile, member), d.Write(exclusiveFile, "\n"))
}

// grantCPUs gives our directories above the job the right to cpus as exclusive ones, and returns
// how to take it back. Directories above ours are not changed: where they withhold cpus it fails
// with ErrUnsupported.
func (j *Job) grantCPUs(l Limits) (takeBack func() error, err error) {
	takeBack = func() error { return nil }
	d, ok := j.with("cpuset")
	if !ok || !l.Isolated {
		return takeBack, nil
	}
	names := strings.Split(path.Join(d.h.unit, d.h.leaf), "/")
	ours := strings.Count(d.h.unit, "/")
	for i := range names {
		dir, err := d.h.mount.Sub(path.Join(names[:i+1]...))
		if err != nil {
			return takeBack, err
		}
		old, err := dir.IDSet(exclusiveFile)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("isolated cpus: %s is not there: %w", dir.Path(exclusiveFile), ErrUnsupported)
		}
		if err != nil {
			return takeBack, err
		}
		if l.CPUs.Minus(old).IsEmpty() {
			continue
		}
		if i < ours {
			return takeBack, fmt.Errorf("isolated cpus: %s has %q, wanted %q in it: %w", dir.Path(exclusiveFile), old,
				l.CPUs, ErrUnsupported)
		}
		before := takeBack
		takeBack = func() error { return errors.Join(dir.Write(exclusiveFile, listOrNone(old)), before()) }
		if err := dir.Write(exclusiveFile, old.Union(l.CPUs).String()); err != nil {
			return takeBack, fmt.Errorf("isolated cpus: %w: %w", ErrUnsupported, err)
		}
	}
	return takeBack, nil
}

// listOrNone is a set as a file takes it: an empty one is written as an empty line.
func listOrNone(s kernfs.IDSet) string {
	if s.IsEmpty() {
		return "\n"
	}
	return s.String()
}
