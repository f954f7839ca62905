package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
)

// Imbalance tells how unevenly a job's work lay on its hosts, of those that told. A nil field is
// not known.
type Imbalance struct {
	CPUT *Excess `json:"cput,omitempty"`
	Mem  *Excess `json:"mem,omitempty"`
}

// Excess is the use of the host that used most, in parts of the mean over all hosts that have a
// figure. A ratio of 1 is even, 3 is one host of three alone.
type Excess struct {
	Ratio float64 `json:"ratio"` // to 3 digits behind the point
	Host  string  `json:"host"`
}

// imbalance returns nil where there are no two hosts to compare.
func imbalance(hosts map[string]*hostapi.HostUsage) *Imbalance {
	i := &Imbalance{
		CPUT: excess(hosts, func(h *hostapi.HostUsage) *float64 { return h.CPUTSeconds }),
		Mem: excess(hosts, func(h *hostapi.HostUsage) *float64 {
			if h.MemBytes == nil {
				return nil
			}
			bytes := float64(*h.MemBytes)
			return &bytes
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

// worthTelling reports whether the hosts differ by more than what chance makes of even work.
func (i *Imbalance) worthTelling() bool {
	return i != nil && (i.CPUT != nil && i.CPUT.Ratio >= 1.1 || i.Mem != nil && i.Mem.Ratio >= 1.1)
}

// String names what is known: "cpu time max/mean 1.32 (n3), memory 1.05 (n2)".
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
