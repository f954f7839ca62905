package jobstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hookhost/hookhost/hostapi"
)

// Record is everything about one job that has to survive a restart of the host. Maps and slices may
// be nil.
type Record struct {
	Job   *hostapi.Job  `json:"job"`
	Phase hostapi.Phase `json:"phase"`

	// Runner is the process whose death ends the job, such as `hookhost run`; nil under pbs_mom.
	Runner *hostapi.ProcessID `json:"mom,omitempty"`
	// PBS means that pbs_mom itself began the job here, so its files show whether it still has the
	// job.
	PBS bool `json:"pbs,omitempty"`
	// MoMHome is the directory with the files of the pbs_mom that began the job, the parent of its
	// mom_priv. "" means unknown.
	MoMHome string `json:"mom_home,omitempty"`
	// BegunBy is the pbs_mom that began the job; zero means unknown.
	BegunBy hostapi.ProcessID `json:"begun_by,omitzero"`
	// Kept means that pbs_mom continued with the job after its begin.
	Kept bool `json:"kept,omitempty"`
	// Terminated means that MoM is killing the job on request (execjob_preterm).
	Terminated bool `json:"terminated,omitempty"`
	// Host is the daemon that owns the job, or that owned it when the daemon died.
	Host hostapi.ProcessID `json:"host"`

	// Missing holds, by host, why its part is unknown, or not up to date while the job lives.
	Missing map[string]string `json:"missing,omitempty"`

	Begun    time.Time `json:"begun,omitzero"`    // when begin was accepted
	Launched Moment    `json:"launched,omitzero"` // when the first program was launched; zero before
	Ended    Moment    `json:"ended,omitzero"`    // when the leading program ended; zero before

	// SuspendedAt is set while the job is suspended. Suspended is the sum of the suspensions that
	// are over.
	SuspendedAt Moment        `json:"suspended_at,omitzero"`
	Suspended   time.Duration `json:"suspended,omitzero"` // nanoseconds

	// HookState is the last Outcome.State, by hook.
	HookState map[string]json.RawMessage `json:"hook_state,omitempty"`
	// Timers says when to call a hook's periodic for this job, by hook.
	Timers map[string]Timer `json:"timers,omitempty"`
	// AttachEnv holds the variables of attached processes, by hook: Outcome.AttachEnv of the last
	// begin or resize.
	AttachEnv map[string]map[string]string `json:"attach_env,omitempty"`

	// LaunchEnv holds variables of the first program that was launched here, for login sessions.
	LaunchEnv map[string]string `json:"launch_env,omitempty"`

	// WalltimeLimit is how long the job may run, as a hook reported; nil if nothing limits it.
	WalltimeLimit *time.Duration `json:"walltime_limit,omitempty"` // nanoseconds

	// Hosts is the known usage of the job's hosts, by host name.
	Hosts map[string]*hostapi.HostUsage `json:"hosts,omitempty"`
	// ResourcesUsed is what was last reported to MoM, in PBS's formats.
	ResourcesUsed hostapi.Resources `json:"resources_used,omitempty"`
	// Reported is how busy the job was when MoM last received an update; zero before.
	Reported Reported          `json:"reported,omitzero"`
	Diag     map[string]string `json:"diag,omitempty"` // by host: diag_messages
	Notes    []string          `json:"notes,omitempty"`
	// NoteTimes says when each of Notes was added, in their order (see StampNotes).
	NoteTimes []time.Time `json:"note_times,omitempty"`
	// Told holds the lines for the job's standard error that epilogue passes on, in order and each
	// once.
	Told []string `json:"told,omitempty"`

	ExitStatus *int `json:"exit_status,omitempty"` // of the leading program; nil until it ended
}

// Reported is the base for the next cpupercent of a job.
type Reported struct {
	CPUTSeconds float64       `json:"cput_seconds"` // of this host
	Elapsed     time.Duration `json:"elapsed"`      // Record.Elapsed, in nanoseconds
	Percent     int           `json:"percent"`      // cpupercent, as reported
}

// encode returns the content of rec's file, and fails if rec is not about job id.
func encode(id string, rec *Record) ([]byte, error) {
	if err := rec.check(id); err != nil {
		return nil, err
	}
	return json.Marshal(rec)
}

// decode returns the record of job id that b contains.
func decode(id string, b []byte) (*Record, error) {
	if err := hostapi.CheckJobID(id); err != nil {
		return nil, err
	}
	rec := new(Record)
	if err := json.Unmarshal(b, rec); err != nil {
		return nil, err
	}
	if err := rec.check(id); err != nil {
		return nil, err
	}
	return rec, nil
}

func (rec *Record) check(id string) error {
	switch {
	case rec.Job == nil:
		return errors.New("record without a job")
	case rec.Job.ID != id:
		return fmt.Errorf("record is about job %q", rec.Job.ID)
	}
	return nil
}
