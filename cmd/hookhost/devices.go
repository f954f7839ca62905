package main

import (
	"slices"

	"github.com/hookhost/hookhost/hostapi"
)

// present returns what is known of a job's hosts without the devices that it has given back, which are the report's.
func present(hosts map[string]*hostapi.HostUsage) map[string]*hostapi.HostUsage {
	returned := func(d hostapi.DeviceUsage) bool { return d.Returned }
	list := map[string]*hostapi.HostUsage{}
	for name, h := range hosts {
		if h != nil && slices.ContainsFunc(h.Devices, returned) {
			less := *h
			less.Devices = slices.DeleteFunc(slices.Clone(h.Devices), returned)
			h = &less
		}
		list[name] = h
	}
	return list
}
