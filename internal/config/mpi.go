package config

// MPI configures hook mpi.
type MPI struct {
	Enabled  bool `toml:"enabled" json:"enabled" comment:"false: nothing is done for MPI; what a launcher starts on other hosts by ssh is outside of its job."`
	Hostfile bool `toml:"hostfile" json:"hostfile" comment:"Tell an Open MPI that knows nothing of PBS which hosts a job has."`
	Remsh    bool `toml:"remsh" json:"remsh" comment:"Have launchers use hookhost-remsh as their remote shell, where the user has not chosen one."`
}

// DefaultMPI returns what holds where the file says nothing.
func DefaultMPI() MPI { return MPI{Enabled: true, Hostfile: true, Remsh: true} }
