package report

import (
	"cmp"
	"fmt"
	"math"
	"regexp"

	"github.com/hookhost/hookhost/hostapi"
)

// gpu is a device of the job whose use was measured.
type gpu struct {
	host    string
	percent float64 // of the time, something ran on it
	hostapi.DeviceUsage
}

// gpus returns the granted devices whose use was measured, by host.
func (r *Report) gpus() []gpu {
	var list []gpu
	for _, host := range r.hostNames() {
		for _, d := range r.Hosts[host].Devices {
			if percent, ok := utilization(d); ok {
				list = append(list, gpu{host, percent, d})
			}
		}
	}
	return list
}

// utilization returns the part of the time, in percent, in which something ran on a device. The
// driver counts it by process, but not if accounting mode is off, and not for MIG instances. Then
// it is the mean of the series.
func utilization(d hostapi.DeviceUsage) (percent float64, ok bool) {
	if d.UtilizationPercent != nil {
		return *d.UtilizationPercent, true
	}
	if d.Series == nil || d.Series.Check() != nil {
		return 0, false
	}
	sum, seconds := 0.0, 0.0
	values := d.Series.Columns[hostapi.ColumnUtilizationPercent]
	for i := 1; i < len(values); i++ { // a point has the mean since the previous one
		if span := float64(d.Series.Times[i] - d.Series.Times[i-1]); !math.IsNaN(values[i]) {
			sum, seconds = sum+values[i]*span, seconds+span
		}
	}
	return sum / seconds, seconds > 0 && !math.IsInf(sum, 0)
}

// gpuUtilization returns the mean over all GPUs in percent, or false if there are none.
func (r *Report) gpuUtilization() (percent float64, ok bool) {
	list := r.gpus()
	if len(list) == 0 {
		return 0, false
	}
	sum := 0.0
	for _, g := range list {
		sum += g.percent
	}
	return sum / float64(len(list)), true
}

// someGPUs is a request or a grant of GPUs in a chunk.
var someGPUs = regexp.MustCompile(`:ngpus=[1-9]`)

// grantAdvice is for a job that requested GPUs and got none. PBS's scheduler looks only at the
// resources in its configuration.
func (r *Report) grantAdvice() Advice {
	j := r.PBSJob
	if j == nil || j.ExecVnode == "" || someGPUs.MatchString(j.ExecVnode) {
		return Advice{}
	}
	if someGPUs.MatchString(cmp.Or(j.ResourceList["select"], j.Schedselect)) {
		return Advice{Text: "PBS granted none of the requested GPUs: tell your administrators that ngpus is missing " +
			"in the line resources of sched_config"}
	}
	return Advice{}
}

// gpuAdvice names GPUs that the job holds, or held to its end, and on which nothing ran.
func (r *Report) gpuAdvice() Advice {
	unused, all, resource := 0, 0, ""
	for _, g := range r.gpus() {
		if g.Returned {
			continue
		}
		if all++; g.percent == 0 {
			unused, resource = unused+1, g.Resource
		}
	}
	switch {
	case unused == 0:
		return Advice{}
	case all == 1:
		return Advice{Text: "the GPU was never used: request none, or find out why the program does not use it"}
	case unused == all:
		return Advice{Text: fmt.Sprintf("none of the %d GPUs was ever used: request none, or find out why the program "+
			"does not use them", all)}
	}
	text := fmt.Sprintf("%d of %d GPUs %s never used", unused, all, wereOrWas(unused))
	if len(r.Hosts) == 1 && resource != "" {
		return try(fmt.Sprintf("%s=%d", resource, all-unused), text)
	}
	return Advice{Text: text}
}
