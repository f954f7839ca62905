package config

// use is a controller and whether the configuration uses it.
type use struct {
	name string
	used bool
}

func inUse(of ...use) []string {
	var list []string
	for _, c := range of {
		if c.used {
			list = append(list, c.name)
		}
	}
	return list
}

// Controllers returns the cgroup controllers that the configuration uses, by their kernel names.
// io is always one of them: see Placing.
func (f *File) Controllers() []string {
	return inUse(use{"memory", f.Memory.Enabled || f.Memsw.Enabled}, use{"cpuset", f.Cpuset.Enabled},
		use{"cpu", f.CPU.Enabled}, use{"pids", f.Pids.Enabled}, use{"hugetlb", f.Hugetlb.Enabled},
		use{"io", true}, use{"rdma", f.RDMA.Enabled})
}

// Limiting returns the controllers that the configured limits need. On a node that lacks one of
// them, no job begins.
func (f *File) Limiting() []string {
	return inUse(use{"memory", f.Memory.Enabled && f.Memory.Enforce != "rss"}, use{"cpuset", f.Cpuset.Enabled},
		use{"cpu", f.CPU.Enabled}, use{"pids", f.Pids.Enabled && f.Pids.Max > 0},
		use{"hugetlb", f.Hugetlb.Enabled}, use{"io", f.IO.Enabled && len(f.IO.Max) > 0})
}

// Placing returns the controllers in which a job has a cgroup without limits, by their names on
// cgroup v1. One of them is always blkio, which counts the bytes that jobs read from and write to
// disks. A node may lack it, unless Required names it.
func (f *File) Placing() []string {
	if f.Blkio.Enabled {
		return f.Required()
	}
	return append([]string{"blkio"}, f.Required()...)
}

// Required returns the controllers of Placing that the configuration names. On a node that lacks
// one of them, no job begins.
func (f *File) Required() []string {
	return inUse(use{"blkio", f.Blkio.Enabled}, use{"net_cls", f.NetCls.Enabled},
		use{"net_prio", f.NetPrio.Enabled}, use{"perf_event", f.PerfEvent.Enabled}, use{"rdma", f.RDMA.Enabled})
}
