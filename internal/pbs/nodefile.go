package pbs

import (
	"fmt"
	"slices"
	"strconv"
)

// HostSlots describes one chunk of a job for MPI and OpenMP.
type HostSlots struct {
	Host    string
	Slots   int // processes that MPI starts there: mpiprocs, else 1 for a chunk with cpus and 0 for one without
	Threads int // ompthreads, else ncpus, at least 1
}

// Hostfile returns the job's chunks in order, at least one: a line of PBS_NODEFILE for each slot.
// exec_vnode determines the host of a chunk, under exec_host2's name if there is one. schedselect
// determines its processes and threads, because exec_vnode contains only consumable resources. If a
// job has no exec_vnode, all of its chunks are on node. Hostfile fails on text that does not have
// PBS's form and on invalid counts.
func Hostfile(execVnode, execHost2, schedselect, node string) ([]HostSlots, error) {
	wanted, err := asked(schedselect)
	if err != nil {
		return nil, err
	}
	if execVnode == "" {
		if len(wanted) == 0 {
			wanted = []map[string]string{nil}
		}
		return hostSlots(wanted, func(int) string { return node })
	}
	chunks, err := JobChunks(execVnode, execHost2)
	if err != nil {
		return nil, err
	}
	var hosts []string
	var got []map[string]string
	for _, c := range chunks {
		if c.Chunk == len(hosts) { // the first vnode of a chunk represents it
			hosts, got = append(hosts, c.Host), append(got, c.Resources)
		}
	}
	if len(wanted) == len(got) {
		got = wanted // mpiprocs and ompthreads are not consumable, so only schedselect has them
	}
	return hostSlots(got, func(i int) string { return hosts[i] })
}

// asked returns the resources of each chunk of a select specification.
func asked(spec string) ([]map[string]string, error) {
	if spec == "" {
		return nil, nil
	}
	parsed, err := ParseSelect(spec)
	var list []map[string]string
	for _, c := range parsed {
		list = append(list, slices.Repeat([]map[string]string{c.Resources}, c.Count)...)
	}
	return list, err
}

func hostSlots(resources []map[string]string, host func(i int) string) ([]HostSlots, error) {
	list := make([]HostSlots, len(resources))
	for i, r := range resources {
		var err error
		if list[i], err = newHostSlots(host(i), r); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func newHostSlots(host string, resources map[string]string) (HostSlots, error) {
	c := HostSlots{Host: host}
	ncpus, err := count(resources, "ncpus", 1)
	if err == nil {
		c.Threads, err = count(resources, "ompthreads", max(ncpus, 1))
	}
	if err == nil {
		c.Slots, err = count(resources, "mpiprocs", min(ncpus, 1))
	}
	return c, err
}

func count(resources map[string]string, name string, absent int) (int, error) {
	value, ok := resources[name]
	if !ok {
		return absent, nil
	}
	n, err := strconv.ParseUint(value, 10, 20)
	if err != nil {
		return 0, fmt.Errorf("%s=%s: not a count", name, Shown(value))
	}
	return int(n), nil
}
