package inventory

import (
	"context"
	"slices"
)

// vendor is how the devices of one vendor are found. With a row of hooks/devices/env.go, it is all
// that the programs have to know about a vendor.
type vendor struct {
	name    string   // as in topology.Device, and in jobs' requests
	sources []string // that find its devices; each one replaces those before it
	majors  []string // in /proc/devices: majors that its drivers get when they are loaded
	find    func(s *scan, ctx context.Context) found
}

// vendors are those whose devices are found without configuration.
var vendors = []vendor{
	{"nvidia", []string{"nvml", "nvidia"}, []string{"nvidia", "nvidia-frontend", "nvidia-caps"}, (*scan).nvidia},
	{"amd", []string{"amd"}, nil, (*scan).amd},
	{"intel", []string{"intel"}, nil, (*scan).intel},
	{"habana", []string{"habana"}, []string{"habanalabs"}, (*scan).habana},
	{"tpu", []string{"tpu"}, []string{"accel", "vfio", "vfio-dev"}, (*scan).tpu},
	{"tenstorrent", []string{"tenstorrent"}, []string{"tenstorrent"}, (*scan).tenstorrent},
}

// Vendors returns the vendors whose devices are found without configuration, as jobs name them.
func Vendors() []string {
	var names []string
	for _, v := range vendors {
		names = append(names, v.name)
	}
	return names
}

// GPUSources returns the names of the sources that find the vendors' devices.
func GPUSources() []string {
	var names []string
	for _, v := range vendors {
		names = append(names, v.sources...)
	}
	return names
}

// VendorOf returns the vendor whose devices a source finds: "" for configured devices. known is
// false if the source does not find any devices.
func VendorOf(source string) (name string, known bool) {
	for _, v := range vendors {
		if slices.Contains(v.sources, source) {
			return v.name, true
		}
	}
	return "", source == configuredSource
}
