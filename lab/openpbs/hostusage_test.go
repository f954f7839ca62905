//go:build openpbs

package openpbs_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hookhost/hookhost/internal/must"
	"github.com/hookhost/hookhost/internal/usage"
)

var usageInRecord = regexp.MustCompile(`resources_used\.host_usage=('.*?}'|\S+)`)

// hostUsage is a resource host_usage as qstat's JSON has it: an object where MoM has not quoted it.
func hostUsage(t *testing.T, told any) string {
	t.Helper()
	if text, is := told.(string); is {
		return text
	}
	b, err := json.Marshal(told)
	must.NoError(t, err)
	return string(b)
}

func TestFiguresOfEachHostReachQstatAndAccounting(t *testing.T) {
	for name, tt := range map[string]struct {
		options string
		script  string
		mem     map[string]int64 // MB, of each host
	}{
		"of one host": {medium(nodes[0]), spin(1.2, 40), map[string]int64{nodes[0]: 40}},
		"of two hosts": {twoHosts, "cat >sister.sh <<'END'\n" + spin(1.2, 90) + "\nEND\n" +
			"/opt/pbs/bin/pbs_tmrsh node2 sh $PWD/sister.sh &\n" + spin(1.2, 40) + "\nwait",
			map[string]int64{"node1": 40, "node2": 90}},
	} {
		t.Run(name, func(t *testing.T) {
			needNodes(t, len(tt.mem))
			j := qsub(t, "alice", tt.options, tt.script)
			used, record := j.used()
			inQstat := hostUsage(t, used["host_usage"])
			match := usageInRecord.FindStringSubmatch(record)
			if match == nil {
				t.Fatalf("qstat has %s, accounting %s", inQstat, record)
			}
			hosts, err := usage.ParseHostUsage(inQstat)
			must.NoError(t, err)
			recorded, err := usage.ParseHostUsage(match[1])
			must.NoError(t, err)
			must.Equal(t, "host_usage (-qstat +accounting)", hosts, recorded)
			if len(hosts) != len(tt.mem) {
				t.Fatalf("host_usage %s", inQstat)
			}
			for host, mem := range tt.mem {
				u := hosts[host]
				if u == nil || u.CPUTSeconds == nil || u.MemBytes == nil || u.MemLimitBytes == nil ||
					u.OOMKills == nil {
					t.Fatalf("host_usage %s", inQstat)
				}
				if mb := *u.MemBytes >> 20; *u.CPUTSeconds < 1.2 || mb < mem || mb > mem+20 || *u.MemLimitBytes == 0 {
					t.Errorf("%s in host_usage %s", host, inQstat)
				}
			}
			j.gone()
		})
	}
}

// The server has what an exechost_periodic of each host has reported.
func TestFiguresOfEachHostOfALiveJobAreInQstat(t *testing.T) {
	needNodes(t, 2)
	for _, node := range nodes {
		momConfig(t, node, "")
	}
	wait, release := hold(t)
	j := qsub(t, "alice", twoHosts, "/opt/pbs/bin/pbs_tmrsh node2 sh -c '"+wait+"' &\n"+wait+"\nwait")
	j.running()
	j.becomes("has figures of each host", func(a attributes) bool {
		if a.ResourcesUsed["host_usage"] == nil {
			return false
		}
		hosts, err := usage.ParseHostUsage(hostUsage(t, a.ResourcesUsed["host_usage"]))
		must.NoError(t, err)
		return hosts["node1"] != nil && hosts["node2"] != nil
	})
	release()
	j.succeeds()
	j.gone()
}

// A killed rank on a sister is counted there.
func TestKillOnASisterIsCountedInHostUsage(t *testing.T) {
	needNodes(t, 2)
	j := qsub(t, "alice", "-l select=1:ncpus=1:mem=64mb:host=node1+1:ncpus=1:mem=64mb:host=node2",
		"/opt/pbs/bin/pbsdsh -n 1 -- "+tooMuch)
	used, _ := j.used()
	hosts, err := usage.ParseHostUsage(hostUsage(t, used["host_usage"]))
	must.NoError(t, err)
	kills := map[string]int64{}
	for name, u := range hosts {
		if u.OOMKills != nil {
			kills[name] = *u.OOMKills
		}
	}
	if kills["node1"] != 0 || kills["node2"] < 1 || strings.Contains(fmt.Sprint(kills), "node3") {
		t.Errorf("kills %v in host_usage %v", kills, used["host_usage"])
	}
	j.gone()
}
