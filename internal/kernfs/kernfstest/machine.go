package kernfstest

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Machine is the hardware of a fake kernel. Each NUMA node is a separate socket. Cpus are numbered
// as by x86 firmware: the first thread of every core, then the second threads.
type Machine struct {
	CPUs    int   // logical
	Threads int   // per core
	NUMA    int   // nodes
	Mem     int64 // bytes on all nodes together
	Swap    int64
	Huge    int64 // bytes in huge pages; without any there are no files for them
	Tasks   int64 // pid_max; 0 means 4194304, which systemd sets
}

// Become changes the machine of a running kernel: it adds memory, turns on swap or reserves pages.
// Cpus and NUMA nodes do not change.
func (k *Kernel) Become(m Machine) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.machine = m
	maps.Copy(k.sys.files, m.sysFiles())
	k.procFiles = k.fixedFiles()
}

// DefaultMachine has two sockets of two cores with two threads each, 16 GiB and no swap.
var DefaultMachine = Machine{CPUs: 8, Threads: 2, NUMA: 2, Mem: 16 << 30}

func (m Machine) online() kernfs.IDSet { return upTo(m.CPUs) }
func (m Machine) nodes() kernfs.IDSet  { return upTo(m.NUMA) }

func upTo(n int) kernfs.IDSet {
	var ids []int
	for i := range n {
		ids = append(ids, i)
	}
	return kernfs.IDs(ids...)
}

func (m Machine) cores() int { return max(m.CPUs/max(m.Threads, 1), 1) }

// node returns the NUMA node and socket of a cpu.
func (m Machine) node(cpu int) int { return cpu % m.cores() * m.NUMA / m.cores() }

func (m Machine) siblings(cpu int) kernfs.IDSet {
	var ids []int
	for t := range max(m.Threads, 1) {
		ids = append(ids, cpu%m.cores()+t*m.cores())
	}
	return kernfs.IDs(ids...)
}

func (m Machine) nodeCPUs(node int) kernfs.IDSet {
	var ids []int
	for cpu := range m.CPUs {
		if m.node(cpu) == node {
			ids = append(ids, cpu)
		}
	}
	return kernfs.IDs(ids...)
}

// sysFiles returns the files of /sys that describe m, in sysfs's format.
func (m Machine) sysFiles() map[string]string {
	f := map[string]string{"devices/system/cpu/online": m.online().String() + "\n"}
	for cpu := range m.CPUs {
		dir := fmt.Sprintf("devices/system/cpu/cpu%d/topology/", cpu)
		f[dir+"physical_package_id"] = fmt.Sprintf("%d\n", m.node(cpu))
		f[dir+"thread_siblings_list"] = m.siblings(cpu).String() + "\n"
	}
	f["devices/system/node/online"] = m.nodes().String() + "\n"
	f["devices/system/node/has_memory"] = m.nodes().String() + "\n"
	for n := range m.NUMA {
		dir := fmt.Sprintf("devices/system/node/node%d/", n)
		f[dir+"cpulist"] = m.nodeCPUs(n).String() + "\n"
		f[dir+"distance"] = m.distances(n)
		f[dir+"meminfo"] = fmt.Sprintf("Node %d MemTotal: %d kB\n", n, m.Mem/int64(m.NUMA)/1024)
	}
	if m.Huge > 0 {
		f["kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"] = fmt.Sprintf("%d\n", m.Huge/HugePage)
	}
	return f
}

func (m Machine) distances(node int) string {
	d := make([]string, m.NUMA)
	for i := range d {
		d[i] = "20"
		if i == node {
			d[i] = "10"
		}
	}
	return strings.Join(d, " ") + "\n"
}

func (m Machine) meminfo(reclaimable int64) string {
	const format = "MemTotal: %d kB\nSwapTotal: %d kB\nSwapFree: %d kB\nSReclaimable: %d kB\nHugepagesize: 2048 kB\n"
	return fmt.Sprintf(format, m.Mem/1024, m.Swap/1024, m.Swap/1024, reclaimable/1024)
}

func (m Machine) pidMax() string { return fmt.Sprintf("%d\n", cmp.Or(m.Tasks, 4194304)) }

// threadsMax depends on the size of memory (set_max_threads in kernel/fork.c, stacks of 16 KiB).
func (m Machine) threadsMax() string { return fmt.Sprintf("%d\n", m.Mem/(8*16<<10)) }
