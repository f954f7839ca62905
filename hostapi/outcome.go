package hostapi

import (
	"encoding/json"
	"time"
)

// JobAction says what becomes of a job whose event was rejected.
type JobAction string

// Actions of MoM on a rejected job (openpbs src/resmom: job.rerun(), job.delete(), system hold).
const (
	JobActionNone   JobAction = ""       // MoM's own rule for the event
	JobActionRerun  JobAction = "rerun"  // back to the queue
	JobActionDelete JobAction = "delete" // gone
	JobActionHold   JobAction = "hold"   // back to the queue with a system hold
)

// Outcome is a hook's answer to an event; merged over all hooks, it is the answer to MoM. The zero
// value accepts and changes nothing. If two hooks set the same thing to different values, that is
// an error that names both.
type Outcome struct {
	Reject   bool      `json:"reject,omitempty"`
	Message  string    `json:"message,omitempty"`    // why it was rejected; one line
	OnReject JobAction `json:"job_action,omitempty"` // what to do with the job on reject

	// FailAction lists the actions that PBS takes because of failed hooks, by their attributes.
	// The host sets it; a value set by a hook is ignored.
	FailAction []string `json:"fail_action,omitempty"`

	// Launch only. Nil changes nothing.
	Progname *string           `json:"progname,omitempty"`
	Argv     []string          `json:"argv,omitzero"`     // empty, not nil: no arguments
	SetEnv   map[string]string `json:"set_env,omitempty"` // launch and attach
	UnsetEnv []string          `json:"unset_env,omitempty"`

	// AttachEnv answers a begin or a resize. It holds the variables of every process that
	// execjob_attach brings in from then on. The host sets them without calling the hook. Variables
	// that the hook set before are no longer set. Nil changes nothing; an empty map, not nil, means
	// no variables.
	AttachEnv map[string]string `json:"attach_env,omitzero"`

	// ResourcesUsed is this host's share, in PBS's formats ("00:00:02", "51200kb").
	ResourcesUsed Resources `json:"resources_used,omitempty"`
	// Usage is this host's part of the usage report.
	Usage *HostUsage `json:"usage,omitempty"`
	// Diag becomes this host's entry in resources_used.diag_messages.
	Diag string `json:"diag,omitempty"`
	// JobStderr holds lines for the job's standard error, written by the mother superior.
	JobStderr []string `json:"job_stderr,omitempty"`
	// Notes are remarks for the people who read the report.
	Notes []string `json:"notes,omitempty"`

	// Vnodes is the report to PBS about this host's vnodes, by name. A nil or empty field changes
	// nothing.
	Vnodes map[string]*Vnode `json:"vnodes,omitempty"`

	// Jobs holds the findings of startup and periodic about single jobs, by job id.
	Jobs map[string]*JobUpdate `json:"jobs,omitempty"`

	// State is stored for this hook and job and returned as Job.State, at most MaxState bytes. Nil
	// leaves the stored state unchanged.
	State json.RawMessage `json:"state,omitempty"`

	// CallAgain asks for an exechost_periodic of this hook about this job (Request.Partial) after
	// this time; nanoseconds in JSON. 0 asks for no call. A later request of the same hook and job
	// replaces an earlier one. The host's timer survives restarts, but after one a call may come
	// too early.
	CallAgain time.Duration `json:"call_again,omitempty"`
	// CallAtElapsed asks for the same when the job has run this long (Job.Elapsed), in nanoseconds.
	// This clock stands still before the first launch and while the job is suspended. An answer may
	// set only one of the two.
	CallAtElapsed time.Duration `json:"call_at_elapsed,omitempty"`

	// WalltimeLimit is how long the job may run, in nanoseconds of Job.Elapsed. It only informs
	// people and programs that ask for the time left, and has no other effect. Nil leaves it
	// unchanged; 0 means that nothing limits the job.
	WalltimeLimit *time.Duration `json:"walltime_limit,omitempty"`
}

// JobUpdate is the part of an Outcome that periodic and startup may set for one job of their list.
type JobUpdate struct {
	ResourcesUsed Resources       `json:"resources_used,omitempty"`
	Usage         *HostUsage      `json:"usage,omitempty"`
	Diag          string          `json:"diag,omitempty"`
	JobStderr     []string        `json:"job_stderr,omitempty"`
	Notes         []string        `json:"notes,omitempty"`
	State         json.RawMessage `json:"state,omitempty"`
	CallAgain     time.Duration   `json:"call_again,omitempty"`
	CallAtElapsed time.Duration   `json:"call_at_elapsed,omitempty"`
	WalltimeLimit *time.Duration  `json:"walltime_limit,omitempty"`

	// AttachEnv counts only if the host has none from this hook for the job, as after the job's
	// record was lost.
	AttachEnv map[string]string `json:"attach_env,omitempty"`

	// Strays are processes outside of every job that belong to this one, at most MaxStrays. The
	// host attaches them to the job by execjob_attach, and adds a note to the job.
	Strays []Stray `json:"strays,omitempty"`

	// Begin is the execjob_begin of a job that JobList lacks, as stored with the job's cgroup. The
	// host has lost its record of that job and makes a new one. Begin counts only at startup.
	Begin *Request `json:"begin,omitempty"`
	// Frozen reports whether the kernel has frozen the job's processes, if that contradicts
	// Job.Phase; otherwise it is nil. The host then sends the hook execjob_postsuspend or
	// execjob_preresume again.
	Frozen *bool `json:"frozen,omitempty"`
}

// Stray is a process of a job's owner that is in no job's cgroup.
type Stray struct {
	Process ProcessID `json:"process"`
	Comm    string    `json:"comm,omitempty"` // its name, for notes
	// Match is the evidence that it belongs to the job: ancestry, session, environment, container.
	Match string `json:"match"`
}

// MaxStrays bounds the strays of one job in one answer; the next periodic can report more.
const MaxStrays = 64
