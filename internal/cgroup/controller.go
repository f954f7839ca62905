package cgroup

import "slices"

// controller describes one of the kernel's controllers in both versions. To add one, put a value of
// this type in a new file and a line in controllers. A nil or empty field means that the controller
// does not have that feature.
type controller struct {
	name string // in the kernel

	// v1 and v2 are the interface files for limits, in the order of writing.
	v1, v2 []knob
	// named returns further knobs, for example a set for each device that a limit names.
	named func(v2 bool, limits ...*Limits) []knob
	// around adds writes before and after those of one version's plan.
	around func(v2 bool, from, to *Limits, plan []write) []write
	// read adds the limits in force that no knob reads.
	read func(d directory, l *Limits) error

	// asked reports whether the limits require the controller.
	asked func(l *Limits) bool
	// check fills in limits that follow from the others. It fails if the limits contradict each
	// other. If this node does not support them, the error is ErrUnsupported.
	check func(j *Job, l *Limits) error

	// usage reads what the job has used. r reads the job's directory.
	usage func(r *reader, u *Usage)

	// features are names for Tree.Has and the interface files whose existence shows them.
	features map[string]files
}

// files are the interface files of v1 and v2 for the same purpose. "" means that there is none.
type files struct{ v1, v2 string }

// controllers holds the controllers in which every job gets a directory, in the order in which they
// are always used. Memory comes first, since the job's marks are stored there. init fills the
// table, because the check functions refer back to it.
var controllers []*controller

func init() {
	controllers = []*controller{
		&memoryController,
		&cpusetController,
		&cpuController,
		{name: "cpuacct"}, // see readCPU
		&pidsController,
		{name: "freezer"}, // see freezer.go
		{name: "devices"}, // see internal/devfilter
		&hugetlbController,
		&ioController,
	}
}

// placing holds the controllers in which a job gets a directory only if Options.Controllers names
// them. hookhost does not set any limits there. Those cgroups only hold a job's processes, so that
// other programs can recognize them.
var placing = []string{"blkio", "net_cls", "net_prio", "perf_event", "rdma"}

// controllerNames returns the names of controllers, followed by placing.
func controllerNames() []string {
	names := make([]string, 0, len(controllers)+len(placing))
	for _, c := range controllers {
		names = append(names, c.name)
	}
	return append(names, placing...)
}

// known returns the controllers in names, in the order of controllerNames. A controller of placing
// must also be in asked.
func known(names, asked []string) []string {
	return slices.DeleteFunc(controllerNames(), func(c string) bool {
		return !slices.Contains(names, c) || slices.Contains(placing, c) && !slices.Contains(asked, c)
	})
}

// knobs returns the controller's fixed knobs of one version, which do not depend on the limits.
func (c *controller) knobs(v2 bool) []knob {
	if v2 {
		return c.v2
	}
	return c.v1
}

// writes lists the writes that change from into to in one version.
func (c *controller) writes(v2 bool, from, to *Limits) []write {
	knobs := c.knobs(v2)
	if c.named != nil {
		knobs = slices.Concat(knobs, c.named(v2, from, to))
	}
	list := writes(c.name, knobs, from, to)
	if c.around != nil {
		list = c.around(v2, from, to, list)
	}
	return list
}
