package openpbs

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Tracking is the file below PBS_HOME in which the PBS server notes which pbs_mom it has to send a
// hook's files to (openpbs src/server/hook_func.c, hook_track_save). A MoM that is down is not in
// it: it gets the hook when it is up.
const Tracking = "server_priv/hooks/tracking.TR"

// Pending returns the hosts whose pbs_mom has not confirmed all of the hook, sorted. The text is
// that of Tracking: lines `HOST:PORT HOOK ACTION ID`. An ACTION of 0 is nothing to do. The last
// line about a host with the highest ID counts.
//
// The server appends lines. Now and then it writes the file anew with all actions that it has ever
// had for a host, in no order of time. IDs grow.
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
