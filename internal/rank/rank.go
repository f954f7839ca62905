// Package rank finds the MPI ranks among a job's processes. A launcher labels each rank in its
// environment.
package rank

import (
	"strconv"

	"github.com/hookhost/hookhost/internal/proc"
)

// Key identifies a rank within a job.
type Key struct {
	World string `json:"world,omitempty"` // distinguishes the programs of one job if the library names them
	Rank  int    `json:"rank"`            // in the program, from 0
}

// label holds the variables of one family of launchers. world is "" if none names the program.
type label struct{ rank, world string }

// labels are in the order in which they are tried. Open MPI's processes also have PMIx's variables,
// and Intel's and MVAPICH's have those of PMI.
var labels = []label{
	{"OMPI_COMM_WORLD_RANK", "PMIX_NAMESPACE"}, // Open MPI (orte/mca/schizo/ompi)
	{"PMIX_RANK", "PMIX_NAMESPACE"},            // PRRTE and others that use PMIx
	{"PMI_RANK", ""},                           // Hydra: MPICH, Intel MPI
	{"MV2_COMM_WORLD_RANK", ""},                // MVAPICH's mpirun_rsh
	{"PALS_RANKID", "PALS_APID"},               // HPE PALS
	{"PMI_ID", ""},                             // older PMI-1
}

// maxRank bounds a rank, because users can set any number.
const maxRank = 1 << 24

// maxWorld bounds a name, because reports contain it.
const maxWorld = 64

// Of returns the rank of a process with that environment, or false if it has none. The environment
// has the format of /proc/PID/environ (NAME=VALUE, each ended by a NUL). Children inherit it, so
// the rank is the topmost process that has it. If a name occurs twice, the first value counts, as
// in getenv(3).
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

// worldName returns a library's name for a program in a form that reports accept, or "" if it is
// invalid.
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
