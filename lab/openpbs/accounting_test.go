//go:build openpbs

package openpbs_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// withTolerance says by how many seconds fields may differ. The server and the node each have a
// clock, and round in their own way.
var withTolerance = map[string]int{"start": 30, "end": 30, "resources_used.cput": 2, "resources_used.walltime": 5}

// onlyServer are fields that the server alone knows, or that it tells MoM too late for a report.
var onlyServer = []string{
	"group", "ctime", "qtime", "etime", "session", "alt_id", "eligible_time", "run_count",
	"Resource_List.nodect", "Resource_List.select",
}

// accountingFields are the fields of one record, in its order. Other values than that of
// host_usage, which the server alone has, have no blanks here.
func accountingFields(t *testing.T, record string) (keys []string, values map[string]string) {
	t.Helper()
	parts := strings.SplitN(strings.TrimSpace(usageInRecord.ReplaceAllString(record, "")), ";", 4)
	if len(parts) != 4 || parts[1] != "E" {
		t.Fatalf("no record E: %q", record)
	}
	values = map[string]string{"id": parts[2]}
	for _, field := range strings.Fields(parts[3]) {
		key, value, _ := strings.Cut(field, "=")
		keys, values[key] = append(keys, key), value
	}
	return keys, values
}

func TestAccountingRecordOfAReportIsTheServers(t *testing.T) {
	j := qsub(t, "alice", "-N record -A account -l walltime=00:10:00 "+small(nodes[0]),
		"python3 -c 'sum(range(20000000))'; sleep 1; exit 3")
	j.finished()
	var server string
	eventually(t, "accounting has the job's end", func() bool {
		server = on(t, nodes[0], "cat "+pbsHome+"/server_priv/accounting/* | grep ';E;"+j.id+";' || :")
		return server != ""
	})
	j.gone()
	record := on(t, nodes[0], "hookhost report --format pbs "+j.id) // other hosts ask PBS
	wantKeys, want := accountingFields(t, server)
	keys, got := accountingFields(t, record)

	rest := wantKeys // ours are in the server's order
	for _, key := range keys {
		at := slices.Index(rest, key)
		if at < 0 {
			t.Errorf("%s is not in the server's record, or not in this place: %s", key, server)
			continue
		}
		rest = rest[at+1:]
		if most, about := withTolerance[key]; about {
			if d := secondsOf(t, got[key]) - secondsOf(t, want[key]); d < -most || d > most {
				t.Errorf("%s=%s, the server has %s", key, got[key], want[key])
			}
		} else if got[key] != want[key] && !slices.Contains(onlyServer, key) {
			t.Errorf("%s=%s, the server has %s", key, got[key], want[key])
		}
	}
	for _, key := range wantKeys {
		if _, has := got[key]; !has && !slices.Contains(onlyServer, key) {
			t.Errorf("%s=%s is the server's alone", key, want[key])
		}
	}
	if got["id"] != want["id"] {
		t.Errorf("id %s, the server has %s", got["id"], want["id"])
	}
}

// secondsOf reads a number, or HH:MM:SS.
func secondsOf(t *testing.T, text string) int {
	t.Helper()
	seconds := 0
	for part := range strings.SplitSeq(text, ":") {
		n, err := strconv.Atoi(part)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		seconds = seconds*60 + n
	}
	return seconds
}
