package kernfstest

// v1Core are the files of every v1 cgroup.
var v1Core = []knob{
	{name: "cgroup.procs", show: (*cgroup).pidList, store: storeProcs},
	{name: "tasks", show: (*cgroup).pidList, store: storeProcs}, // processes of one thread
}

// v1Knobs are the files of each controller, with the defaults of Linux 6.18. Controllers that the
// fake only uses to place processes have none.
var v1Knobs = map[string][]knob{
	"cpu":     cpuV1,
	"cpuacct": cpuacctKnobs,
	"cpuset":  cpusetV1,
	"memory":  memoryV1,
	"pids":    pidsKnobs,
	"freezer": {off(knob{name: "freezer.state", show: showFreezerState, store: storeFreezerState})},
	"devices": devicesKnobs,
	"hugetlb": hugetlbV1,
}
