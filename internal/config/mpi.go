package config

import (
	"fmt"
	"slices"
)

// MPI configures hook mpi.
type MPI struct {
	Enabled  bool   `toml:"enabled" json:"enabled" comment:"false: nothing is done for MPI; what a launcher starts on other hosts by ssh is outside of its job."`
	Hostfile bool   `toml:"hostfile" json:"hostfile" comment:"Tell an Open MPI that knows nothing of PBS which hosts a job has."`
	Remsh    bool   `toml:"remsh" json:"remsh" comment:"Have launchers use hookhost-remsh as their remote shell, where the user has not chosen one."`
	Strays   string `toml:"strays" json:"strays" comment:"What becomes of a process of a job's owner that belongs to the job and is outside of it: adopt, report, kill or off. What is not certain is reported only."`
	PerTask  bool   `toml:"per_task" json:"per_task" comment:"Give each MPI rank a cgroup of its own inside the job's, so that what it used, and that it ran out of memory, is known by rank."`
}

// DefaultMPI returns what holds where the file says nothing.
func DefaultMPI() MPI { return MPI{Enabled: true, Hostfile: true, Remsh: true, Strays: "adopt"} }

// strayActions are the values of mpi.strays.
var strayActions = []string{"adopt", "report", "kill", "off"}

// check returns the first value that cannot be meant, by its key.
func (m MPI) check() error {
	if !slices.Contains(strayActions, m.Strays) {
		return fmt.Errorf("mpi.strays = %q: want adopt, report, kill or off", m.Strays)
	}
	return nil
}
