package placement

import (
	"slices"

	"github.com/hookhost/hookhost/internal/topology"
)

// available reports whether another job may hold d.
func (m *machine) available(d topology.Device) bool {
	return m.req.Held[d.ID] < max(m.req.JobsPerDevice, 1)
}

// countDevices counts, for each leaf, the nearby devices that jobs can get and this job does not
// have.
func (m *machine) countDevices(own []int) {
	free := map[int]int{}
	for i, d := range m.req.Devices {
		if m.available(d) && !slices.Contains(own, i) {
			free[d.NUMA]++
		}
	}
	for _, l := range m.leaves {
		l.devices = free[l.numa]
	}
}

// reserve counts the devices in picked as the job's.
func (m *machine) reserve(picked []int) {
	m.near = map[int]int{}
	for _, i := range picked {
		numa := m.req.Devices[i].NUMA
		if slices.ContainsFunc(m.leaves, func(l *leaf) bool { return l.numa == numa }) {
			m.near[numa]++
		}
	}
	m.countDevices(picked)
	m.group(m.leaves)
}

// ids returns the IDs of the devices in picked.
func (m *machine) ids(picked []int) []string {
	var ids []string
	for _, i := range picked {
		ids = append(ids, m.req.Devices[i].ID)
	}
	return ids
}
