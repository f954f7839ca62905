package openpbs

import (
	"maps"
	"slices"
	"strings"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/pbs"
)

// bounds are the job-wide resources that only limit the job. They are in Resource_List alone. place
// is among them because MoM writes it for every job, so that no other can be added. So is
// container, since an image gives a job's programs no more than they have outside it.
var bounds = []string{"cput", "walltime", "soft_walltime", "min_walltime", "max_walltime", "walltime_signal",
	"pmem", "pvmem", "pids", "oom_group", "shm_size", "place", "container"}

// rlimitPrefix is the prefix of resources that request limits of processes. They give no process
// more than the node allows.
const rlimitPrefix = "rlimit_"

// unasked removes lines that the job's user may have forged from the Resource_List and returns
// their names. Resource_List follows Output_Path and contains texts itself, so a forged line in it
// looks like MoM's. The remaining lines limit the job, or schedselect requests the same. MoM writes
// schedselect for every job, so a second one is a contradiction.
func unasked(job *hostapi.Job) []string {
	chunks, _ := pbs.ParseSelect(job.Schedselect) // if it cannot be parsed, it requests nothing
	var names []string
	for _, name := range slices.Sorted(maps.Keys(job.ResourceList)) {
		value := job.ResourceList[name]
		malformed := pbs.CheckResources(map[string]string{name: value}) != nil // the job is refused for it
		if malformed || slices.Contains(bounds, name) || strings.HasPrefix(name, rlimitPrefix) ||
			pbs.Asks(chunks, name, value) {
			continue
		}
		delete(job.ResourceList, name)
		names = append(names, name)
	}
	return names
}
