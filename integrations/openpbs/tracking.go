package openpbs

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Tracking is the file below PBS_HOME in which the PBS server notes to which pbs_moms it has to
// send a hook's files (openpbs src/server/hook_func.c, hook_track_save). It leaves out a MoM that
// is down, which gets the hook when it is up.
const Tracking = "server_priv/hooks/tracking.TR"

// Pending returns the hosts whose pbs_mom has not confirmed the entire hook, sorted. The text comes
// from Tracking: lines `HOST:PORT HOOK ACTION ID`. ACTION 0 means that nothing is left to do. Of a
// host's lines with the highest ID, the last one counts.
//
// The server appends lines. Sometimes it rewrites the file with all actions that it ever had for a
// host, in any order. IDs only increase.
func Pending(tracking []byte, hook string) []string {
	pending, latest := map[string]bool{}, map[string]int64{}
	for line := range strings.Lines(string(tracking)) {
		f := strings.Fields(line)
		if len(f) != 4 || f[1] != hook {
			continue
		}
		host, _, _ := strings.Cut(f[0], ":")
		id, err := strconv.ParseInt(f[3], 10, 64)
		if err != nil || id < latest[host] {
			continue
		}
		latest[host] = id
		delete(pending, host)
		if f[2] != "0" {
			pending[host] = true
		}
	}
	return slices.Sorted(maps.Keys(pending))
}
