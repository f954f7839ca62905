package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// cpusetController gives a job cpus and NUMA nodes (cgroup-v1/cpusets.rst; cgroup-v2.rst,
// "Cpuset"). The kernel accepts a v2 cpuset that it cannot provide, but does not apply it. So on v2
// the effective cpuset is read back.
var cpusetController = controller{
	name: "cpuset",
	v1: []knob{
		idSet(knob{file: cpusetCPUs}, cpusOf),
		idSet(knob{file: cpusetMems}, memsOf),
		cpusetFlag("cpuset.mem_hardwall", func(l *Limits) *bool { return &l.MemHardwall }),
		cpusetFlag("cpuset.memory_spread_page", func(l *Limits) *bool { return &l.SpreadPage }),
	},
	v2: []knob{
		idSet(knob{file: cpusetCPUs, shown: effectiveCPUs, none: "\n"}, cpusOf),
		idSet(knob{file: cpusetMems, shown: effectiveMems, none: "\n"}, memsOf),
	},
	around: func(v2 bool, from, to *Limits, plan []write) []write {
		if v2 {
			return plan
		}
		return migrate(from, plan)
	},
	asked: func(l *Limits) bool { return !l.CPUs.IsEmpty() },
	check: (*Job).fillMems,
	features: map[string]files{
		"hardwall": {"cpuset.mem_hardwall", ""},
		"spread":   {"cpuset.memory_spread_page", ""},
	},
}

const (
	cpusetCPUs    = "cpuset.cpus"
	cpusetMems    = "cpuset.mems"
	effectiveCPUs = "cpuset.cpus.effective"
	effectiveMems = "cpuset.mems.effective"
)

func cpusOf(l *Limits) *kernfs.IDSet { return &l.CPUs }
func memsOf(l *Limits) *kernfs.IDSet { return &l.Mems }

// idSet is a knob for cpus or NUMA nodes.
func idSet(k knob, at func(*Limits) *kernfs.IDSet) knob {
	k.format = asSet
	k.get = func(l *Limits) string { return at(l).String() }
	k.set = func(l *Limits, text string) (err error) {
		*at(l), err = kernfs.ParseIDSet(text)
		return err
	}
	return k
}

// cpusetFlag is a knob that applies only to jobs that get cpus.
func cpusetFlag(file string, at func(*Limits) *bool) knob {
	return knob{
		file: file, detail: true, none: "0",
		get: func(l *Limits) string {
			if *at(l) && !l.CPUs.IsEmpty() {
				return "1"
			}
			return ""
		},
		set: func(l *Limits, text string) error {
			*at(l) = text == "1"
			return nil
		},
	}
}

// migrateKnob is v1's cpuset.memory_migrate, which is not a limit. The job's memory moves along
// only if the flag is on while the nodes change. On v2 it always moves.
var migrateKnob = knob{file: "cpuset.memory_migrate"}

// migrate turns the flag on before a change of NUMA nodes on v1, and off afterwards.
func migrate(from *Limits, plan []write) []write {
	mems := slices.IndexFunc(plan, func(w write) bool { return w.File == cpusetMems })
	if mems < 0 || from == nil {
		return plan
	}
	flag := func(value, old string) write {
		return write{Controller: "cpuset", File: migrateKnob.file, Value: value, Old: old, knob: &migrateKnob}
	}
	plan = slices.Insert(plan, mems+1, flag("0", "1"))
	return slices.Insert(plan, mems, flag("1", "0"))
}

// fillMems completes a v1 cpuset, which must have NUMA nodes: if it has none, it gets the parent's.
// A job without cpus may still have a cpuset directory, because cpuset is mounted together with
// other controllers. fillMems fills that one too.
func (j *Job) fillMems(l *Limits) error {
	d, ok := j.with("cpuset")
	if !ok || d.h.v2 {
		return nil
	}
	if l.CPUs.IsEmpty() {
		l.Mems = kernfs.IDSet{}
		if slices.ContainsFunc(d.h.controllers(), func(c string) bool { return c != "cpuset" }) {
			var err error
			if l.CPUs, err = j.tree.CPUs(); err != nil {
				return err
			}
		}
	}
	if !l.CPUs.IsEmpty() && l.Mems.IsEmpty() {
		var err error
		if l.Mems, err = j.tree.Mems(); err != nil {
			return err
		}
	}
	return nil
}

// CPUs returns the cpus that jobs may run on, which are those of their parent. It fails with
// ErrUnsupported if there is no cpuset controller.
func (t *Tree) CPUs() (kernfs.IDSet, error) {
	return t.cpuset(cpusetCPUs, "cpuset.effective_cpus", effectiveCPUs, ofJobs)
}

// CPUsAbove returns the cpus that the parent of all jobs may have, which are those of the unit. It
// fails like CPUs.
func (t *Tree) CPUsAbove() (kernfs.IDSet, error) {
	return t.cpuset(cpusetCPUs, "cpuset.effective_cpus", effectiveCPUs, aboveJobs)
}

// Mems returns the NUMA nodes from which jobs may get memory. It fails with ErrUnsupported if there
// is no cpuset controller.
func (t *Tree) Mems() (kernfs.IDSet, error) {
	return t.cpuset(cpusetMems, "cpuset.effective_mems", effectiveMems, ofJobs)
}

// Where cpuset begins to look.
const (
	ofJobs    = iota // in the parent of all jobs
	aboveJobs        // in the unit
)

// cpuset reads a set, by the names of its files. The parent of all jobs and the unit may not exist
// yet, or on v1 may not be filled. Then the set is that of the directory above.
func (t *Tree) cpuset(configured, v1, v2 string, first int) (kernfs.IDSet, error) {
	h := t.with("cpuset")
	if h == nil {
		return kernfs.IDSet{}, fmt.Errorf("available %s: no cpuset controller: %w", configured, ErrUnsupported)
	}
	files := []string{v1, configured}
	if h.v2 {
		files = []string{v2}
	}
	for _, dir := range []string{path.Join(h.unit, h.leaf), h.unit, "."}[first:] {
		for _, file := range files {
			set, err := h.mount.IDSet(path.Join(dir, file))
			if errors.Is(err, fs.ErrNotExist) || err == nil && set.IsEmpty() {
				continue
			}
			return set, err
		}
	}
	return kernfs.IDSet{}, fmt.Errorf("available %s: %s has no %s",
		configured, h.mount.Path("."), strings.Join(files, " or "))
}

// inheritSets copies empty sets of a v1 directory from its parent. A v1 cpuset without cpus or mems
// accepts no task (ENOSPC).
func inheritSets(dir, above *kernfs.FS) error {
	for _, file := range []string{cpusetCPUs, cpusetMems} {
		set, err := dir.IDSet(file)
		if err != nil {
			return err
		}
		if !set.IsEmpty() {
			continue
		}
		if set, err = above.IDSet(file); err != nil {
			return err
		}
		if err := dir.Write(file, set.String()); err != nil {
			return err
		}
	}
	return nil
}
