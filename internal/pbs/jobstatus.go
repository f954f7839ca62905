package pbs

import "time"

// JobStatus is what PBS's server knows about a job: from qstat, or about one of its runs from
// accounting. A field that the server did not say is empty.
type JobStatus struct {
	ID, Name string
	User     string
	Queue    string
	Project  string
	Account  string

	State string // job_state of qstat, such as "R"; "F" from accounting
	// Comment is the server's or the scheduler's, such as why a job is not running.
	Comment string

	// Terminated means that the job was ended on request, as by qdel. Accounting does not say it.
	Terminated bool

	Start      time.Time // of the run
	End        time.Time // zero while the job lives
	ExitStatus *int      // PBS's Exit_status; nil while the job's leading program runs
	SessionID  int
	RunCount   int
	RunVersion int

	ExecHost  string // "n1/0*2+n2/0"
	ExecVnode string // "(n1:ncpus=2)+(n2:ncpus=1)"

	ResourceList  map[string]string
	ResourcesUsed map[string]string
}

// Ended reports whether the job has ended, by its state.
func (s *JobStatus) Ended() bool { return s.State == "F" || s.State == "X" }
