package cgroup

import "slices"

// controller is what a job has of one of the kernel's controllers, in both versions. A new
// controller is a value of this type in a file of its own, and a line in controllers. A field that
// is nil or empty is what the controller does not have.
type controller struct {
	name string // the kernel's

	// v1 and v2 are the interface files of limits, in the order of writing.
	v1, v2 []knob
	// named returns further knobs, a set for each thing that one of the limits names.
	named func(v2 bool, limits ...*Limits) []knob
	// around adds to the plan of one version what has to surround its writes.
	around func(v2 bool, from, to *Limits, plan []write) []write
	// read adds the limits in force that are in no knob.
	read func(d directory, l *Limits) error

	// asked reports whether the limits need the controller.
	asked func(l *Limits) bool
	// check fills in what follows from the limits. The result is an error if they contradict each
	// other, and ErrUnsupported if this node cannot have them.
	check func(j *Job, l *Limits) error

	// usage reads what the job has used. The directory of r is the job's.
	usage func(r *reader, u *Usage)

	// features are names for Tree.Has and the interface files that show them.
	features map[string]files
}

// files are the interface file of v1 and the one of v2 for one thing; "" is none.
type files struct{ v1, v2 string }

// controllers holds the controllers that a job gets a directory of, in the order in which they are
// used everywhere. Memory is the first, since the job's marks are kept there. The table is filled
// by init because checks of controllers use it.
var controllers []*controller

func init() {
	controllers = []*controller{
		&memoryController,
		&cpusetController,
		&cpuController,
		&cpuacctController,
		&pidsController,
		{name: "freezer"}, // see freezer.go
		{name: "devices"}, // see internal/devfilter
		&hugetlbController,
		&ioController,
	}
}

// placing holds the controllers that a job gets a directory of only if Options.Controllers names
// them. They have no limits of ours and only hold a job's processes, so that others know them.
var placing = []string{"blkio", "net_cls", "net_prio", "perf_event", "rdma"}

// controllerNames returns the names of controllers, and then of placing.
func controllerNames() []string {
	names := make([]string, 0, len(controllers)+len(placing))
	for _, c := range controllers {
		names = append(names, c.name)
	}
	return append(names, placing...)
}

// known returns the controllers that are in names, in the order of controllerNames. A controller of
// placing has to be in asked, too.
func known(names, asked []string) []string {
	return slices.DeleteFunc(controllerNames(), func(c string) bool {
		return !slices.Contains(names, c) || slices.Contains(placing, c) && !slices.Contains(asked, c)
	})
}

// knobs returns the controller's knobs of one version that do not depend on the limits.
func (c *controller) knobs(v2 bool) []knob {
	if v2 {
		return c.v2
	}
	return c.v1
}

// writes lists what turns from into to in one version.
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
