package config

// Controllers returns the cgroup controllers that the configuration makes use of, by their kernel names.
func (f *File) Controllers() []string {
	var list []string
	for _, c := range []struct {
		name string
		used bool
	}{
		{"memory", f.Memory.Enabled || f.Memsw.Enabled}, {"cpuset", f.Cpuset.Enabled}, {"cpu", f.CPU.Enabled},
		{"pids", f.Pids.Enabled}, {"hugetlb", f.Hugetlb.Enabled}, {"io", f.IO.Enabled},
	} {
		if c.used {
			list = append(list, c.name)
		}
	}
	return list
}
