package kernfstest

import (
	"math"

	"golang.org/x/sys/unix"
)

// v1Core are the files of every v1 cgroup, with the defaults that Linux 6.18 shows.
var v1Core = []knob{
	keptNumber("cgroup.clone_children", 0, 0, 1, unix.EINVAL),
	{name: "cgroup.procs", show: (*cgroup).pidList, store: storeProcs},
	top(always("cgroup.sane_behavior", "0\n")),
	keptNumber("notify_on_release", 0, 0, 1, unix.EINVAL),
	top(kept("release_agent", "\n")),
	{name: "tasks", show: (*cgroup).pidList, store: storeProcs}, // processes of one thread
}

// v1Knobs are the files of each controller, read from Linux 6.18 except for hugetlb (cgroup-v1/hugetlb.rst).
var v1Knobs = map[string][]knob{
	"cpu":     cpuV1,
	"cpuacct": cpuacctKnobs,
	"cpuset":  cpusetV1,
	"memory":  memoryV1,
	"pids":    pidsKnobs,
	"freezer": freezerKnobs,
	"devices": devicesKnobs,
	"blkio": {
		always("blkio.bfq.io_service_bytes", "Total 0\n"),
		always("blkio.bfq.io_service_bytes_recursive", "Total 0\n"),
		always("blkio.bfq.io_serviced", "Total 0\n"),
		always("blkio.bfq.io_serviced_recursive", "Total 0\n"),
		off(keptNumber("blkio.bfq.weight", 100, 1, 1000, unix.ERANGE)),
		off(kept("blkio.bfq.weight_device", "default 100\n")),
		{name: "blkio.reset_stats", store: func(*cgroup, string) error { return nil }},
		always("blkio.throttle.io_service_bytes", "Total 0\n"),
		always("blkio.throttle.io_service_bytes_recursive", "Total 0\n"),
		always("blkio.throttle.io_serviced", "Total 0\n"),
		always("blkio.throttle.io_serviced_recursive", "Total 0\n"),
		kept("blkio.throttle.read_bps_device", ""),
		kept("blkio.throttle.read_iops_device", ""),
		kept("blkio.throttle.write_bps_device", ""),
		kept("blkio.throttle.write_iops_device", ""),
	},
	"hugetlb": hugetlbV1,
	"net_cls": {keptNumber("net_cls.classid", 0, 0, math.MaxUint32, unix.ERANGE)},
	"net_prio": {
		kept("net_prio.ifpriomap", "lo 0\n"),
		always("net_prio.prioidx", "1\n"),
	},
	"perf_event": {},
	"rdma":       rdmaKnobs,
}

// rdmaKnobs are the same in both versions. They have a line for each device, of which there is
// none.
var rdmaKnobs = []knob{
	off(always("rdma.current", "")),
	off(kept("rdma.max", "")),
}
