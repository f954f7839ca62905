// Package usage converts what the kernel counted for a job to PBS's resources_used. Resources
// formats one host's counters as PBS does. Fold combines several samples of a host into one. Sum
// combines several hosts into the job's total. CPUEfficiency is the efficiency of totals. The
// package is pure: the same input gives the same output. A value that was not measured stays
// absent; it never becomes 0.
package usage

import (
	"math"
	"strconv"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// Resources returns h in PBS's formats. cput is HH:MM:SS to the nearest second; walltime is
// truncated to whole seconds. mem, vmem and hpmem are in kb, rounded up. cpupercent
// (100*cput/walltime, rounded) and ncpus are integers. Values that h lacks are absent. So are
// walltime and cpupercent if walltime is not positive, and ncpus if it is 0.
func Resources(h *hostapi.HostUsage, walltime time.Duration) hostapi.Resources {
	r := hostapi.Resources{}
	if h == nil {
		return r
	}
	if h.NCPUs > 0 {
		r["ncpus"] = strconv.Itoa(h.NCPUs)
	}
	if h.MemBytes != nil && *h.MemBytes >= 0 {
		r["mem"] = pbs.Size(*h.MemBytes).KB()
	}
	if h.VmemBytes != nil && *h.VmemBytes >= 0 {
		r["vmem"] = pbs.Size(*h.VmemBytes).KB()
	}
	if h.HugetlbPeakBytes != nil && *h.HugetlbPeakBytes >= 0 {
		r["hpmem"] = pbs.Size(*h.HugetlbPeakBytes).KB()
	}
	if walltime > 0 {
		r["walltime"] = formatDuration(walltime)
	}
	if cput, ok := seconds(h.CPUTSeconds); ok {
		// A mother superior adds up whole seconds of all hosts. If truncated, the sum would be too
		// small by half a second per host.
		r["cput"] = pbs.FormatDuration(cput)
		if walltime > 0 {
			r["cpupercent"] = strconv.FormatInt(int64(math.Round(100*cput.Seconds()/walltime.Seconds())), 10)
		}
	}
	return r
}

// seconds returns s as a duration, or false if it is absent or invalid.
func seconds(s *float64) (time.Duration, bool) {
	const most = math.MaxInt64 / float64(time.Second)
	if s == nil || !(*s >= 0 && *s < most) { // also false for NaN
		return 0, false
	}
	return time.Duration(*s * float64(time.Second)), true
}

// formatDuration does not round up: PBS shows a job of 1.9 s as 00:00:01.
func formatDuration(d time.Duration) string { return pbs.FormatDuration(d.Truncate(time.Second)) }

// BillingResources returns h's values for billing: energy in kWh, without that of devices, and
// billing in units. Values that h lacks are absent.
func BillingResources(h *hostapi.HostUsage) hostapi.Resources {
	r := hostapi.Resources{}
	if h.EnergyJoules != nil {
		r["energy"] = decimal(*h.EnergyJoules / joulesPerKWh)
	}
	if h.Billing != nil {
		r["billing"] = decimal(*h.Billing)
	}
	return r
}

const joulesPerKWh = 3.6e6

// decimal always has a point: PBS takes a number without one for a long.
func decimal(n float64) string { return strconv.FormatFloat(n, 'f', 6, 64) }
