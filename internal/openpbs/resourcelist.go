package openpbs

import (
	"maps"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// bounds are the resources of a whole job that only bound it. They stand in Resource_List alone.
// place is among them because MoM says it of every job, so that no other can be added.
var bounds = []string{"cput", "walltime", "soft_walltime", "min_walltime", "max_walltime", "walltime_signal",
	"pmem", "pvmem", "pids", "oom_group", "place"}

// rlimitPrefix begins the resources that ask for limits of processes. No process gets more by them
// than the node allows.
const rlimitPrefix = "rlimit_"

// unasked takes out of the job's Resource_List what may be its user's own line, and returns the
// names. Resource_List stands behind Output_Path and holds texts itself, so a line of it that MoM
// did not write cannot be told from MoM's. Lines that remain bound the job, or schedselect asks for
// the same. MoM writes schedselect of every job, so a second one is a contradiction.
func unasked(job *hostapi.Job) []string {
	chunks, _ := pbs.ParseSelect(job.Schedselect) // one that cannot be read asks for nothing
	var names []string
	for _, name := range slices.Sorted(maps.Keys(job.ResourceList)) {
		value := job.ResourceList[name]
		malformed := pbs.CheckResources(map[string]string{name: value}) != nil // for which the job is refused
		if malformed || slices.Contains(bounds, name) || strings.HasPrefix(name, rlimitPrefix) ||
			pbs.Asks(chunks, name, value) {
			continue
		}
		delete(job.ResourceList, name)
		names = append(names, name)
	}
	return names
}
