package kernfstest

import (
	"fmt"
	"strings"

	"github.com/hookhost/hookhost/internal/kernfs"
)

// Machine is the hardware of a fake kernel. Each NUMA node is a socket of its own. Cpus are numbered as x86 firmware
// does: first one thread of every core, then the second ones.
type Machine struct {
	CPUs    int   // logical
	Threads int   // per core
	NUMA    int   // nodes
	Mem     int64 // bytes, of all nodes
	Swap    int64
}

// DefaultMachine has two sockets of two cores with two threads each, 16 GiB, no swap.
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

// node is the NUMA node and socket of a cpu, core its core in there.
func (m Machine) node(cpu int) int { return cpu % m.cores() * m.NUMA / m.cores() }
func (m Machine) core(cpu int) int { return cpu%m.cores() - m.node(cpu)*m.cores()/m.NUMA }

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

// sysFiles are the files of /sys that describe m, in the form that sysfs has.
func (m Machine) sysFiles() map[string]string {
	f := map[string]string{
		"devices/system/cpu/online":   m.online().String() + "\n",
		"devices/system/cpu/possible": m.online().String() + "\n",
		"devices/system/cpu/present":  m.online().String() + "\n",
		"devices/system/cpu/offline":  "\n",
	}
	for cpu := range m.CPUs {
		dir := fmt.Sprintf("devices/system/cpu/cpu%d/topology/", cpu)
		f[dir+"core_id"] = fmt.Sprintf("%d\n", m.core(cpu))
		f[dir+"physical_package_id"] = fmt.Sprintf("%d\n", m.node(cpu))
		f[dir+"thread_siblings_list"] = m.siblings(cpu).String() + "\n"
		f[dir+"core_cpus_list"] = m.siblings(cpu).String() + "\n"
		f[dir+"core_siblings_list"] = m.nodeCPUs(m.node(cpu)).String() + "\n"
		f[dir+"package_cpus_list"] = m.nodeCPUs(m.node(cpu)).String() + "\n"
	}
	nodes := m.nodes().String() + "\n"
	for _, name := range []string{"online", "possible", "has_cpu", "has_memory", "has_normal_memory"} {
		f["devices/system/node/"+name] = nodes
	}
	for n := range m.NUMA {
		dir := fmt.Sprintf("devices/system/node/node%d/", n)
		kb := m.Mem / int64(m.NUMA) / 1024
		f[dir+"cpulist"] = m.nodeCPUs(n).String() + "\n"
		f[dir+"distance"] = m.distances(n)
		f[dir+"meminfo"] = fmt.Sprintf("Node %[1]d MemTotal:       %8[2]d kB\nNode %[1]d MemFree:        %8[2]d kB\n", n, kb)
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
	var b strings.Builder
	for _, l := range []struct {
		key string
		kb  int64
	}{
		{"MemTotal", m.Mem / 1024}, {"MemFree", m.Mem / 1024}, {"MemAvailable", m.Mem / 1024}, {"Buffers", 0}, {"Cached", 0},
		{"SwapCached", 0}, {"SwapTotal", m.Swap / 1024}, {"SwapFree", m.Swap / 1024}, {"Shmem", 0},
		{"KReclaimable", reclaimable / 1024}, {"SReclaimable", reclaimable / 1024},
	} {
		fmt.Fprintf(&b, "%-15s %8d kB\n", l.key+":", l.kb)
	}
	return b.String() + "HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n"
}

func (m Machine) cpuinfo() string {
	var b strings.Builder
	for cpu := range m.CPUs {
		fmt.Fprintf(&b, "processor\t: %d\nvendor_id\t: GenuineIntel\nphysical id\t: %d\nsiblings\t: %d\ncore id\t\t: %d\ncpu cores\t: %d\nflags\t\t: fpu ht\n\n",
			cpu, m.node(cpu), m.nodeCPUs(m.node(cpu)).Len(), m.core(cpu), m.cores()/m.NUMA)
	}
	return b.String()
}
