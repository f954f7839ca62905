package series

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hookhost/hookhost/hostapi"
)

// Bounds on the series of all hosts of a job together. A report on 1,000 hosts has about 2 MB of
// series, and one on 50,000 hosts less than 20 MB.
const (
	pointsOfJob  = 24_000 // in the series of all hosts
	leastOfAHost = 4
)

// Share returns how many points each host, and each device on it, may have for a job on so many
// hosts. With up to 66 hosts, that is MostPoints.
func Share(hosts int) int {
	return min(max(pointsOfJob/max(hosts, 1), leastOfAHost), MostPoints)
}

// Job holds the series of a job, by host.
type Job map[string]Host

// Host holds the series of one host of a job.
type Host struct {
	Host    *hostapi.Series            `json:"host,omitempty"`
	Devices map[string]*hostapi.Series `json:"devices,omitempty"` // by DeviceUsage.ID
}

// Check returns an error if a series is one that a hook could not have reported.
func (j Job) Check() error {
	var errs []error
	for name, of := range j {
		errs = append(errs, of.Host.Check())
		for _, d := range of.Devices {
			errs = append(errs, d.Check())
		}
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("host %s: %w", name, err)
		}
	}
	return nil
}

// In reports whether the usage of a host has points.
func In(hosts map[string]*hostapi.HostUsage) bool {
	for _, u := range hosts {
		if u != nil && (u.Series != nil || slices.ContainsFunc(u.Devices,
			func(d hostapi.DeviceUsage) bool { return d.Series != nil })) {
			return true
		}
	}
	return false
}

// Without returns the usage of hosts without series. Entries without series are shared with hosts.
func Without(hosts map[string]*hostapi.HostUsage) map[string]*hostapi.HostUsage {
	return Job{}.Join(hosts)
}

// Append returns the series with the points in the usage of hosts appended. A series that gets
// points has at most most of them. Unchanged series are shared with j.
func (j Job) Append(hosts map[string]*hostapi.HostUsage, most int) Job {
	all := make(Job, len(j))
	maps.Copy(all, j)
	for name, u := range hosts {
		if !In(map[string]*hostapi.HostUsage{name: u}) {
			continue
		}
		of := all[name]
		if u.Series != nil {
			of.Host = thin(Append(of.Host, u.Series), most)
		}
		devices := make(map[string]*hostapi.Series, len(u.Devices))
		maps.Copy(devices, of.Devices)
		for _, d := range u.Devices {
			if d.Series != nil {
				devices[d.ID] = thin(Append(devices[d.ID], d.Series), most)
			}
		}
		if len(devices) > 0 {
			of.Devices = devices
		}
		all[name] = of
	}
	return all
}

// Join returns the usage of hosts with their series replaced by these. Unchanged parts are shared
// with hosts and j.
func (j Job) Join(hosts map[string]*hostapi.HostUsage) map[string]*hostapi.HostUsage {
	joined := make(map[string]*hostapi.HostUsage, len(hosts))
	for name, u := range hosts {
		of := j[name]
		if u == nil || u.Series == nil && of.Host == nil && len(u.Devices) == 0 {
			joined[name] = u
			continue
		}
		changed := *u
		changed.Series, changed.Devices = of.Host, slices.Clone(u.Devices)
		for i, d := range changed.Devices {
			changed.Devices[i].Series = of.Devices[d.ID]
		}
		joined[name] = &changed
	}
	return joined
}
