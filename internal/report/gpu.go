package report

import "github.com/hookhost/hookhost/hostapi"

// gpu is a device whose utilization was measured, with its host.
type gpu struct {
	host string
	hostapi.DeviceUsage
}

// gpus returns the devices whose utilization was measured, by host.
func (r *Report) gpus() []gpu {
	var list []gpu
	for _, host := range r.hostNames() {
		for _, d := range r.Hosts[host].Devices {
			if d.UtilizationPercent != nil {
				list = append(list, gpu{host, d})
			}
		}
	}
	return list
}

// gpuUtilization returns the mean over all GPUs in percent, or false if there are none.
func (r *Report) gpuUtilization() (percent float64, ok bool) {
	list := r.gpus()
	if len(list) == 0 {
		return 0, false
	}
	sum := 0.0
	for _, g := range list {
		sum += *g.UtilizationPercent
	}
	return sum / float64(len(list)), true
}
