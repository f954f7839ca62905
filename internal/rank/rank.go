// Package rank tells which rank of an MPI program a process is, from the environment that its
// launcher gave it. The package reads no file.
package rank

import (
	"bytes"
	"strconv"
)

// Rank is a process's place in an MPI program. A number that the environment does not say is -1.
type Rank struct {
	World string // tells programs of one job apart, where the library names them; "" otherwise
	Rank  int    // in the program, from 0
	Local int    // among the ranks of this host
	Size  int    // how many ranks there are
}

// variables are those of one family of launchers; "" for what it does not tell.
type variables struct{ rank, world, local, size string }

// families are in the order in which they are asked: Open MPI's processes have what PMIx sets too,
// and Intel's and MVAPICH's what PMI does.
var families = []variables{
	// Open MPI (orte/mca/schizo/ompi)
	{rank: "OMPI_COMM_WORLD_RANK", world: "PMIX_NAMESPACE", local: "OMPI_COMM_WORLD_LOCAL_RANK",
		size: "OMPI_COMM_WORLD_SIZE"},
	// PRRTE, and what else speaks PMIx
	{rank: "PMIX_RANK", world: "PMIX_NAMESPACE"},
	// Hydra: MPICH, Intel MPI
	{rank: "PMI_RANK", local: "MPI_LOCALRANKID", size: "PMI_SIZE"},
	// MVAPICH's mpirun_rsh
	{rank: "MV2_COMM_WORLD_RANK", local: "MV2_COMM_WORLD_LOCAL_RANK", size: "MV2_COMM_WORLD_SIZE"},
	{rank: "PALS_RANKID", world: "PALS_APID", local: "PALS_LOCAL_RANKID", size: "PALS_NRANKS"}, // HPE PALS
	// PMI-1 of older ones
	{rank: "PMI_ID", size: "PMI_SIZE"},
}

// maxRank bounds what a number of a user's own may be taken for.
const maxRank = 1 << 24

// maxWorld bounds a name, which goes into reports.
const maxWorld = 64

// Of returns the rank of a process with that environment, false for one that has none. The
// environment is as /proc/PID/environ has it (NAME=VALUE, each ended by a NUL). Children inherit
// it: the rank is the topmost process that has it.
func Of(environ []byte) (Rank, bool) {
	vars := map[string]string{}
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		name, value, ok := bytes.Cut(entry, []byte{'='})
		if !ok || !interesting(name) {
			continue
		}
		if _, there := vars[string(name)]; !there { // as getenv(3) has it
			vars[string(name)] = string(value)
		}
	}
	number := func(name string) int {
		n, err := strconv.ParseUint(vars[name], 10, 32)
		if err != nil || n > maxRank {
			return -1
		}
		return int(n)
	}
	for _, f := range families {
		if n := number(f.rank); n >= 0 {
			return Rank{World: worldName(vars[f.world]), Rank: n, Local: number(f.local), Size: number(f.size)}, true
		}
	}
	return Rank{}, false
}

// interesting tells whether a variable can be one of those that are asked for.
func interesting(name []byte) bool {
	for _, prefix := range []string{"OMPI_COMM", "PMI", "MPI_L", "MV2_COMM", "PALS_"} {
		if bytes.HasPrefix(name, []byte(prefix)) {
			return true
		}
	}
	return false
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
