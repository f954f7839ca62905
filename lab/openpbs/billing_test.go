//go:build openpbs

package openpbs_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/pbs"
)

// billingOf is a resources_used of qstat's or accounting's as a number, 0 without one.
func billingOf(value any) float64 {
	n, _ := strconv.ParseFloat(fmt.Sprint(value), 64)
	return n
}

// The mother superior bills for all hosts. An hour of a cpu is billed by 3600 units here.
func TestBillingOfAllHostsReachesQstatAndAccounting(t *testing.T) {
	createResource(t, "billing", "type=float")
	sendConfiguration(t, "[billing]\nweights = { ncpus = 3600.0 }\nresources_used = true\n")
	j := qsub(t, "alice", fmt.Sprintf("-l select=%d:ncpus=1:mem=64mb -l place=scatter", len(nodes)), "sleep 4")
	a := j.finished()
	billing := billingOf(a.ResourcesUsed["billing"])
	walltime, err := pbs.ParseDuration(fmt.Sprint(a.ResourcesUsed["walltime"]))
	must.NoError(t, err)
	least, most := 3.5*float64(len(nodes)), max(14, 2.5*walltime.Seconds())*float64(len(nodes))
	if billing < least || billing > most {
		t.Errorf("resources_used.billing %v of a job of 4 s on %d hosts: %v", billing, len(nodes), a.ResourcesUsed)
	}
	if got := billingOf(j.end()["resources_used.billing"]); got != billing {
		t.Errorf("billing %v in accounting, %v in qstat", got, billing)
	}
}
