package kernfstest

import (
	"fmt"
	"strconv"
	"time"
)

// pressureKnobs are the pressure files of every v2 cgroup (accounting/psi.rst). Averages stay 0.
var pressureKnobs = []knob{
	reads("cpu.pressure", showPressure("cpu")),
	reads("io.pressure", showPressure("io")),
	reads("memory.pressure", showPressure("memory")),
}

func showPressure(resource string) func(*cgroup) string {
	return func(g *cgroup) string {
		text := ""
		for _, kind := range []string{"some", "full"} {
			total := g.keptValue("pressure."+resource+"."+kind, 0)
			text += fmt.Sprintf("%s avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n", kind, total)
		}
		return text
	}
}

// Stall has pid wait for a resource: cpu, io or memory. some and full are added to the totals of its v2 cgroup and those
// above.
func (k *Kernel) Stall(pid int, resource string, some, full time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.procs[pid]
	if !ok {
		return
	}
	for h, g := range p.in {
		if !h.v2 {
			continue
		}
		for a := range g.up {
			for kind, d := range map[string]time.Duration{"some": some, "full": full} {
				key := "pressure." + resource + "." + kind
				a.values[key] = strconv.FormatInt(a.keptValue(key, 0)+d.Microseconds(), 10)
			}
		}
	}
}

// noPressure is a pressure file without stalls.
const noPressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
