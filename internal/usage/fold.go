package usage

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/series"
)

// Fold merges the later sample new of a host into old; either may be nil. No counter decreases and
// none is lost, so samples may be repeated: Fold(Fold(a, b), b) equals Fold(a, b). Fields that are
// not counters (cpus, mems, ncpus, the limit, how the job was killed) come from new if new has
// them. The result shares nothing with old or new.
func Fold(old, new *hostapi.HostUsage) *hostapi.HostUsage {
	if old == nil {
		old = &hostapi.HostUsage{}
	}
	if new == nil {
		new = &hostapi.HostUsage{}
	}
	return &hostapi.HostUsage{
		CPUs:              cmp.Or(new.CPUs, old.CPUs),
		Mems:              cmp.Or(new.Mems, old.Mems),
		NCPUs:             cmp.Or(new.NCPUs, old.NCPUs),
		CPUTSeconds:       larger(old.CPUTSeconds, new.CPUTSeconds),
		UserSeconds:       larger(old.UserSeconds, new.UserSeconds),
		SystemSeconds:     larger(old.SystemSeconds, new.SystemSeconds),
		MemBytes:          larger(old.MemBytes, new.MemBytes),
		MemSource:         memSource(old, new),
		VmemBytes:         larger(old.VmemBytes, new.VmemBytes),
		CgroupPeakBytes:   larger(old.CgroupPeakBytes, new.CgroupPeakBytes),
		MemLimitBytes:     latest(old.MemLimitBytes, new.MemLimitBytes),
		OOMKills:          larger(old.OOMKills, new.OOMKills),
		PidsPeak:          larger(old.PidsPeak, new.PidsPeak),
		HugetlbPeakBytes:  larger(old.HugetlbPeakBytes, new.HugetlbPeakBytes),
		MajorFaults:       larger(old.MajorFaults, new.MajorFaults),
		ThrottledSeconds:  larger(old.ThrottledSeconds, new.ThrottledSeconds),
		Pressure:          foldPressure(old.Pressure, new.Pressure),
		EnergyJoules:      larger(old.EnergyJoules, new.EnergyJoules),
		Billing:           larger(old.Billing, new.Billing),
		Series:            series.Append(old.Series, new.Series),
		Devices:           foldDevices(old.Devices, new.Devices),
		Ranks:             foldRanks(old.Ranks, new.Ranks),
		Strays:            max(old.Strays, new.Strays),
		ProcessesAttached: max(old.ProcessesAttached, new.ProcessesAttached),
		Kill:              latest(old.Kill, new.Kill),
	}
}

func foldPressure(old, new *hostapi.Pressure) *hostapi.Pressure {
	switch {
	case old == nil && new == nil:
		return nil
	case old == nil:
		old = &hostapi.Pressure{}
	case new == nil:
		new = &hostapi.Pressure{}
	}
	return &hostapi.Pressure{
		CPUSome:    larger(old.CPUSome, new.CPUSome),
		MemorySome: larger(old.MemorySome, new.MemorySome), MemoryFull: larger(old.MemoryFull, new.MemoryFull),
		IOSome: larger(old.IOSome, new.IOSome), IOFull: larger(old.IOFull, new.IOFull),
	}
}

// foldDevices keeps a device that new does not name: a resized job had it for a while.
func foldDevices(old, new []hostapi.DeviceUsage) []hostapi.DeviceUsage {
	var list []hostapi.DeviceUsage
	for _, d := range slices.Concat(old, new) {
		i := slices.IndexFunc(list, func(o hostapi.DeviceUsage) bool { return o.ID == d.ID })
		if i < 0 {
			i, list = len(list), append(list, hostapi.DeviceUsage{ID: d.ID})
		}
		o := list[i]
		list[i] = hostapi.DeviceUsage{
			ID: d.ID, Resource: cmp.Or(d.Resource, o.Resource), Model: cmp.Or(d.Model, o.Model),
			PCI: cmp.Or(d.PCI, o.PCI), Returned: d.Returned,
			UtilizationPercent: latest(o.UtilizationPercent, d.UtilizationPercent),
			MemPeakBytes:       larger(o.MemPeakBytes, d.MemPeakBytes),
			EnergyJoules:       larger(o.EnergyJoules, d.EnergyJoules),
			Series:             series.Append(o.Series, d.Series),
		}
	}
	return list
}

// foldRanks keeps a rank that new does not name: it has ended.
func foldRanks(old, new []hostapi.RankUsage) []hostapi.RankUsage {
	type key struct {
		world string
		rank  int
	}
	ranks := make(map[key]hostapi.RankUsage, len(old))
	for _, r := range slices.Concat(old, new) {
		o := ranks[key{r.World, r.Rank}]
		r.Comm = cmp.Or(r.Comm, o.Comm)
		r.CPUTSeconds = larger(o.CPUTSeconds, r.CPUTSeconds)
		r.MemPeakBytes = larger(o.MemPeakBytes, r.MemPeakBytes)
		r.OOMKills = larger(o.OOMKills, r.OOMKills)
		ranks[key{r.World, r.Rank}] = r
	}
	list := slices.SortedFunc(maps.Values(ranks), func(a, b hostapi.RankUsage) int {
		return cmp.Or(cmp.Compare(a.World, b.World), cmp.Compare(a.Rank, b.Rank))
	})
	return list[:min(len(list), hostapi.MaxRanks)]
}

// memSource returns the source of the larger MemBytes.
func memSource(old, new *hostapi.HostUsage) string {
	if new.MemBytes == nil || old.MemBytes != nil && *old.MemBytes > *new.MemBytes {
		return cmp.Or(old.MemSource, new.MemSource)
	}
	return new.MemSource
}

func larger[T cmp.Ordered](old, new *T) *T {
	if old == nil || new == nil {
		return latest(old, new)
	}
	v := max(*old, *new)
	return &v
}

func latest[T any](old, new *T) *T {
	p := cmp.Or(new, old)
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
