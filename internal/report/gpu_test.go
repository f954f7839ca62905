package report

import (
	"math"
	"testing"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/must"
)

// A GPU that a job holds counts as idle though no process of the job ever appeared on it.
func TestIdleGPUsAreFoundByTheGrant(t *testing.T) {
	gpu := func(percent float64) hostapi.DeviceUsage {
		return hostapi.DeviceUsage{ID: "GPU", Resource: "ngpus", UtilizationPercent: &percent}
	}
	sampled := func(of func(at float64) float64) hostapi.DeviceUsage {
		return hostapi.DeviceUsage{ID: "GPU", Resource: "ngpus",
			Series: course(map[string]func(float64) float64{hostapi.ColumnUtilizationPercent: of})}
	}
	given := gpu(0)
	given.Returned = true
	const none = "the GPU was never used: request none, or find out why the program does not use it"
	for _, tt := range []struct {
		name    string
		devices []hostapi.DeviceUsage
		want    string
	}{
		{"busy", []hostapi.DeviceUsage{gpu(40), gpu(0.1)}, ""},
		{"one idle", []hostapi.DeviceUsage{gpu(0)}, none},
		{"one of two", []hostapi.DeviceUsage{gpu(0), gpu(40)}, "try ngpus=1: 1 of 2 GPUs was never used"},
		{"both", []hostapi.DeviceUsage{gpu(0), gpu(0)}, "none of the 2 GPUs was ever used: " +
			"request none, or find out why the program does not use them"},
		{"given back", []hostapi.DeviceUsage{given, gpu(40)}, ""},
		{"without accounting", []hostapi.DeviceUsage{sampled(level(0, 0))}, none},
		{"without accounting, in use", []hostapi.DeviceUsage{sampled(level(7, 0))}, ""},
		{"without a sample", []hostapi.DeviceUsage{sampled(level(math.NaN(), 0))}, ""},
		{"not measured", []hostapi.DeviceUsage{{ID: "GPU", Resource: "ngpus"}}, ""},
	} {
		for _, status := range []int{0, 1} {
			r := hadRunFor(90*time.Minute, status, func(h *hostapi.HostUsage) { h.Devices = tt.devices })
			must.Equal(t, tt.name, tt.want, firstAdvice(r))
		}
	}
	r := hadRunFor(time.Hour, 0, func(h *hostapi.HostUsage) {
		h.Devices = []hostapi.DeviceUsage{sampled(func(at float64) float64 {
			if at > 0.5 {
				return math.NaN() // a gap counts for nothing
			}
			return 30
		}), gpu(50)}
	})
	mean, _ := r.gpuUtilization()
	must.Equal(t, "mean", 40.0, math.Round(mean))
}

// A scheduler that does not know ngpus runs the job without.
func TestRequestedGPUsThatPBSDidNotGrantAreSaid(t *testing.T) {
	for _, tt := range []struct{ request, vnodes, want string }{
		{"1:ncpus=8:ngpus=2", "(n1:ncpus=8)", "PBS granted none of the requested GPUs: tell your administrators that " +
			"ngpus is missing in the line resources of sched_config"},
		{"1:ncpus=8:ngpus=2", "(n1:ncpus=8:ngpus=2)", ""},
		{"1:ncpus=8:ngpus=0", "(n1:ncpus=8)", ""},
		{"1:ncpus=8", "(n1:ncpus=8)", ""},
	} {
		r := fromRecord(caseRecord("1.srv", "x", func(r *jobstate.Record) {
			r.Job.ResourceList["select"], r.Job.ExecVnode = tt.request, tt.vnodes
		}), begun.Add(time.Hour))
		must.Equal(t, tt.request, tt.want, firstAdvice(r))
	}
}
