package config

// Controllers returns the cgroup controllers that the configuration makes use of, by their kernel names.
func (f *File) Controllers() []string {
	var list []string
	for _, c := range []struct {
		name string
		used bool
	}{
		{"memory", f.Memory.Enabled || f.Memsw.Enabled}, {"cpuset", f.Cpuset.Enabled}, {"cpu", f.CPU.Enabled},
		{"pids", f.Pids.Enabled}, {"hugetlb", f.Hugetlb.Enabled}, {"io", f.IO.Enabled || f.Blkio.Enabled}, {"rdma", f.RDMA.Enabled},
	} {
		if c.used {
			list = append(list, c.name)
		}
	}
	return list
}

// Placing returns the controllers in which a job only has a cgroup, by their names on cgroup v1.
func (f *File) Placing() []string {
	var list []string
	for _, c := range []struct {
		name string
		used bool
	}{
		{"blkio", f.Blkio.Enabled}, {"net_cls", f.NetCls.Enabled}, {"net_prio", f.NetPrio.Enabled},
		{"perf_event", f.PerfEvent.Enabled}, {"rdma", f.RDMA.Enabled},
	} {
		if c.used {
			list = append(list, c.name)
		}
	}
	return list
}
