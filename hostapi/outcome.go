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

// Outcome is what a hook makes of an event; merged over the hooks it is what MoM is told. The zero
// value accepts and changes nothing. Two hooks that set the same thing to different values are an
// error naming both.
type Outcome struct {
	Reject   bool      `json:"reject,omitempty"`
	Message  string    `json:"message,omitempty"`    // why it was rejected; one line
	OnReject JobAction `json:"job_action,omitempty"` // what to do with the job on reject

	// FailAction is what PBS is to do about hooks that failed, by their fail_action. The host sets
	// it; a hook's own is passed over.
	FailAction []string `json:"fail_action,omitempty"`

	// Launch only. Nil leaves a thing as it is.
	Progname *string           `json:"progname,omitempty"`
	Argv     []string          `json:"argv,omitzero"`     // empty, not nil: no arguments
	SetEnv   map[string]string `json:"set_env,omitempty"` // launch and attach
	UnsetEnv []string          `json:"unset_env,omitempty"`

	// AttachEnv answers a begin or a resize: the variables of every process that execjob_attach
	// takes in from then on. The host gives them without calling the hook. The variables that the
	// hook set before are no longer set. Nil leaves them as they are; empty, not nil: none.
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

	// Vnodes is what PBS is to be told of this host's vnodes, by name. A nil or empty field leaves
	// a thing as it is.
	Vnodes map[string]*Vnode `json:"vnodes,omitempty"`

	// Jobs holds what startup and periodic found out about single jobs, by job id.
	Jobs map[string]*JobUpdate `json:"jobs,omitempty"`

	// State is kept for this hook and job and handed back as Job.State, at most MaxState bytes; nil
	// keeps what there was.
	State json.RawMessage `json:"state,omitempty"`

	// CallAgain asks for an exechost_periodic of this hook about this job (Request.Partial), so
	// long from now; nanoseconds in JSON. 0: no call. A later request of the same hook and job
	// replaces an earlier one. The host keeps the clock over restarts, after which a call may come
	// before its time.
	CallAgain time.Duration `json:"call_again,omitempty"`
	// CallAtElapsed asks for the same when the job has run so long (Job.Elapsed), in nanoseconds.
	// This clock stands still before the first launch and while the job is suspended. An answer has
	// one of both.
	CallAtElapsed time.Duration `json:"call_at_elapsed,omitempty"`

	// WalltimeLimit is how long the job may run, in nanoseconds of Job.Elapsed. The limit is for
	// people and programs that ask how long is left, and has no effect of its own. Nil leaves it as
	// it is, 0 says that nothing limits the job.
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

	// AttachEnv counts only while the host has none of this hook for the job, as after the job's
	// record was lost.
	AttachEnv map[string]string `json:"attach_env,omitempty"`

	// Strays are processes outside of every job that belong to this one, at most MaxStrays. The
	// host attaches them to the job by execjob_attach, and adds a note to the job.
	Strays []Stray `json:"strays,omitempty"`

	// Begin is the execjob_begin of a job that JobList lacks, as the job's cgroup has it. The host
	// has lost its record of that job and makes it anew. Begin counts at startup alone.
	Begin *Request `json:"begin,omitempty"`
	// Frozen reports whether the kernel holds the job's processes, where that is not what Job.Phase
	// says; nil elsewhere. The host sends the hook execjob_postsuspend or execjob_preresume once
	// more.
	Frozen *bool `json:"frozen,omitempty"`
}

// Stray is a process of a job's owner that is in no job's cgroup.
type Stray struct {
	Process ProcessID `json:"process"`
	Comm    string    `json:"comm,omitempty"` // its name, for notes
	// Match says by what it belongs to the job: ancestry, session, environment.
	Match string `json:"match"`
}

// MaxStrays bounds the strays of one job in one answer; there is a next periodic.
const MaxStrays = 64
