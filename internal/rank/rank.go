// Package rank finds the MPI ranks among a job's processes. A launcher labels each rank by the
// environment that it gives it.
package rank

import (
	"strconv"

	"github.com/hookhost/hookhost/internal/proc"
)

// Key tells the ranks of a job apart.
type Key struct {
	World string `json:"world,omitempty"` // tells programs of one job apart, where the library names them
	Rank  int    `json:"rank"`            // in the program, from 0
}

// label is the variables of one family of launchers; world is "" where none names the program.
type label struct{ rank, world string }

// labels are in the order in which they are asked: Open MPI's processes have what PMIx sets too,
// and Intel's and MVAPICH's what PMI does.
var labels = []label{
	{"OMPI_COMM_WORLD_RANK", "PMIX_NAMESPACE"}, // Open MPI (orte/mca/schizo/ompi)
	{"PMIX_RANK", "PMIX_NAMESPACE"},            // PRRTE, and what else speaks PMIx
	{"PMI_RANK", ""},                           // Hydra: MPICH, Intel MPI
	{"MV2_COMM_WORLD_RANK", ""},                // MVAPICH's mpirun_rsh
	{"PALS_RANKID", "PALS_APID"},               // HPE PALS
	{"PMI_ID", ""},                             // PMI-1 of older ones
}

// maxRank bounds what a number of a user's own may be taken for.
const maxRank = 1 << 24

// maxWorld bounds a name, which goes into reports.
const maxWorld = 64

// Of returns the rank of a process with that environment, false for one that has none. The
// environment is as /proc/PID/environ has it (NAME=VALUE, each ended by a NUL). Children inherit
// it: the rank is the topmost process that has it. Of two values of one name the first counts, as
// for getenv(3).
func Of(environ []byte) (Key, bool) {
	for _, l := range labels {
		text, _ := proc.Getenv(environ, l.rank)
		n, err := strconv.ParseUint(text, 10, 32)
		if err == nil && n <= maxRank {
			world, _ := proc.Getenv(environ, l.world)
			return Key{World: worldName(world), Rank: int(n)}, true
		}
	}
	return Key{}, false
}

// worldName is a library's name for a program as a report may have it; "" for one that is none.
func worldName(text string) string {
	if len(text) > maxWorld {
		return ""
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return ""
		}
	}
	return text
}
