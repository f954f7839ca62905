package usage

import (
	"strconv"

	"github.com/hookhost/hookhost/internal/pbs"
)

// BillingRate returns the billing units per hour for what a job holds on a host. The rate is the
// sum of each weight times the amount of its resource. A size counts in gb. A resource counts 0 if
// the job does not hold it, or if it is neither a size nor a number up to mostHeld.
func BillingRate(weights map[string]float64, held pbs.HostShare) float64 {
	rate := 0.0
	for name, weight := range weights {
		rate += weight * amountOf(name, held)
	}
	return rate
}

// mostHeld is more than there is of anything. ParseFloat accepts "inf" and "1e308", but an infinite
// sum cannot be written as JSON.
const mostHeld = 1e18

func amountOf(name string, held pbs.HostShare) float64 {
	sizes := map[string]*pbs.Size{"mem": held.Mem, "vmem": held.Vmem, "hpmem": held.HPMem}
	switch size, isSize := sizes[name]; {
	case isSize && size != nil:
		return gigabytes(*size)
	case name == "ncpus":
		return float64(held.NCPUs)
	case name == "ngpus":
		return float64(held.NGPUs)
	}
	text := held.Other[name]
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n <= mostHeld {
		return n
	}
	size, err := pbs.ParseSize(text)
	if err != nil {
		return 0
	}
	return gigabytes(size)
}

func gigabytes(size pbs.Size) float64 { return float64(size) / (1 << 30) }
