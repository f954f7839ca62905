package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

// Imbalance is how unevenly a job's work was spread over the hosts that reported. A nil field is
// unknown.
type Imbalance struct {
	CPUT *Excess `json:"cput,omitempty"`
	Mem  *Excess `json:"mem,omitempty"`
}

// Excess is the usage of the host that used most, relative to the mean of all hosts that have a
// figure. A ratio of 1 is even; with three hosts, 3 means that one did all the work.
type Excess struct {
	Ratio float64 `json:"ratio"` // rounded to 3 decimals
	Host  string  `json:"host"`
}

// imbalance returns nil unless there are two hosts to compare.
func imbalance(hosts map[string]*hostapi.HostUsage) *Imbalance {
	i := &Imbalance{
		CPUT: excess(hosts, func(h *hostapi.HostUsage) *float64 { return h.CPUTSeconds }),
		Mem: excess(hosts, func(h *hostapi.HostUsage) *float64 {
			if h.MemBytes == nil {
				return nil
			}
			return new(float64(*h.MemBytes))
		}),
	}
	if i.CPUT == nil && i.Mem == nil {
		return nil
	}
	return i
}

func excess(hosts map[string]*hostapi.HostUsage, of func(*hostapi.HostUsage) *float64) *Excess {
	var most Excess
	sum, n := 0.0, 0
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		v := of(hosts[name])
		if v == nil || !(*v >= 0) {
			continue
		}
		if n++; n == 1 || *v > most.Ratio {
			most = Excess{*v, name}
		}
		sum += *v
	}
	if n < 2 || sum <= 0 || math.IsInf(sum, 0) {
		return nil
	}
	most.Ratio = math.Round(most.Ratio*float64(n)/sum*1000) / 1000
	return &most
}

// worthTelling reports whether the hosts differ by more than even work does by chance.
func (i *Imbalance) worthTelling() bool {
	return i != nil && (i.CPUT != nil && i.CPUT.Ratio >= 1.1 || i.Mem != nil && i.Mem.Ratio >= 1.1)
}

// String lists what is known: "cpu time max/mean 1.32 (n3), memory 1.05 (n2)".
func (i *Imbalance) String() string {
	var parts []string
	if e := i.CPUT; e != nil {
		parts = append(parts, fmt.Sprintf("cpu time max/mean %.2f (%s)", e.Ratio, e.Host))
	}
	if e := i.Mem; e != nil {
		what := "memory"
		if len(parts) == 0 {
			what += " max/mean"
		}
		parts = append(parts, fmt.Sprintf("%s %.2f (%s)", what, e.Ratio, e.Host))
	}
	return strings.Join(parts, ", ")
}
