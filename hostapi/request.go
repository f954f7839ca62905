package hostapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Request is one event, with the fields that PBS gives to pbs.event(). `hookhost event` and the
// unix socket take it as JSON.
type Request struct {
	Event Event  `json:"event"`
	Node  string `json:"node,omitempty"` // this host as exec_vnode names it: pbs.get_local_nodename()

	// Job is set for every execjob_* event.
	Job *Job `json:"job,omitempty"`

	// PID is the process to attach (attach), or the leader of the session that MoM made for the
	// program (launch). The leader waits there and becomes the program afterwards.
	PID int `json:"pid,omitempty"`
	// Login means, at attach, that PID is root's and will start a login session of the job's owner,
	// such as sshd. It joins the job although it is not the owner's.
	Login bool `json:"login,omitempty"`
	// StartTime is when the process of a login began, in clock ticks since boot. A later process
	// with its pid does not join the job. 0 means unknown.
	StartTime uint64 `json:"start_time,omitempty"`

	// Launch only: the program, its arguments without the program's name, and its whole
	// environment.
	Progname string            `json:"progname,omitempty"`
	Argv     []string          `json:"argv,omitempty"`
	Env      map[string]string `json:"env,omitempty"`

	// JobList holds the jobs that live on this host, by id (startup and periodic only). For a hook
	// it is complete unless Partial is set: an id that is missing belongs to no job.
	JobList map[string]*Job `json:"job_list,omitempty"`
	// Partial means that a periodic concerns only the jobs of JobList and says nothing about
	// others. It is either a call for all jobs due by CallAgain or CallAtElapsed, or a report of a
	// live job.
	Partial bool `json:"partial,omitempty"`

	// VnodeList holds this host's vnodes as PBS knows them, by name. Under `hookhost run` it is
	// empty.
	VnodeList map[string]*Vnode `json:"vnode_list,omitempty"`

	// MoM is the process responsible for the job, set at begin by a MoM whose death ends the job,
	// such as `hookhost run`. It is nil under pbs_mom, which finds its jobs again after a restart.
	MoM *ProcessID `json:"mom,omitempty"`

	// PBS means, at begin, that pbs_mom itself begins the job here. MoMHome is the directory with
	// its files, the parent of its mom_priv; "" means unknown. Only the host sets both.
	PBS     bool   `json:"pbs,omitempty"`
	MoMHome string `json:"mom_home,omitempty"`
}

// Phase is how far a job has come on a host.
type Phase string

// The phases of a job, named after PBS's job substates.
const (
	PhasePrerun    Phase = "prerun"    // begin was accepted, no program runs yet
	PhaseRunning   Phase = "running"   // a program was launched
	PhaseSuspended Phase = "suspended" // its processes are stopped; walltime stands still
	PhaseExiting   Phase = "exiting"   // epilogue has begun: processes are killed, usage is final
)

// ProcessID identifies a process even if its pid is reused.
type ProcessID struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"start_time"` // clock ticks since boot: field 22 of /proc/PID/stat
	BootID    string `json:"boot_id,omitempty"`
}

// Job is a PBS job as this host sees it. Resource values are spelled as PBS spells them ("64mb",
// "00:10:00").
type Job struct {
	ID            string    `json:"id"`
	Name          string    `json:"name,omitempty"`
	Owner         Owner     `json:"owner"`
	Queue         string    `json:"queue,omitempty"`
	Project       string    `json:"project,omitempty"`
	Account       string    `json:"account,omitempty"`
	Server        string    `json:"server,omitempty"`
	ExecVnode     string    `json:"exec_vnode,omitempty"`
	ExecHost2     string    `json:"exec_host2,omitempty"`
	Schedselect   string    `json:"schedselect,omitempty"`
	ResourceList  Resources `json:"resource_list,omitempty"`
	ResourcesUsed Resources `json:"resources_used,omitempty"`
	SessionID     int       `json:"session_id,omitempty"`
	RunCount      int       `json:"run_count,omitempty"`
	RunVersion    int       `json:"run_version,omitempty"`
	KillDelay     *int      `json:"job_kill_delay,omitempty"` // seconds; nil means the node's own setting
	StdoutFile    string    `json:"stdout_file,omitempty"`
	StderrFile    string    `json:"stderr_file,omitempty"`
	JoinPath      string    `json:"join_path,omitempty"`
	// MotherSuperior is false on sister hosts (PBS: in_ms_mom()). If an event file omits it, it is
	// true.
	MotherSuperior bool `json:"in_ms_mom"`
	ExitStatus     *int `json:"exit_status,omitempty"` // from epilogue on

	// Phase is the job's phase on this host when the event is sent; "" at begin.
	Phase Phase `json:"phase,omitempty"`

	// Elapsed is how long the job has run on this host, in nanoseconds, from its first launch to
	// its end. It excludes suspensions and is unaffected by changes to the clock. The host counts
	// it; it is 0 before the first launch.
	Elapsed time.Duration `json:"elapsed,omitempty"`

	// State is what this hook last returned in Outcome.State for this job; nil before that.
	State json.RawMessage `json:"hook_state,omitempty"`
}

// Vnode is a vnode of this host. In a Request it is as PBS knows it; in an Outcome it holds the
// changes.
type Vnode struct {
	ResourcesAvailable Resources `json:"resources_available,omitempty"`
	Sharing            string    `json:"sharing,omitempty"`
	State              string    `json:"state,omitempty"` // as pbsnodes spells it: "free", "offline", "offline,down"
	// Comment of an Outcome replaces PBS's comment; a pointer to "" clears it.
	Comment *string `json:"comment,omitempty"`
}

// Owner is the user the job runs as.
type Owner struct {
	User string `json:"user"`
	UID  int    `json:"uid"` // -1 when the event did not say
	GID  int    `json:"gid"` // -1 when the event did not say
}

// UnmarshalJSON leaves UID and GID at -1 if they are absent: an owner without ids must never read
// as root.
func (o *Owner) UnmarshalJSON(b []byte) error {
	type plain Owner
	p := plain{UID: -1, GID: -1}
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	*o = Owner(p)
	return nil
}

// UnmarshalJSON treats an absent in_ms_mom as true.
func (j *Job) UnmarshalJSON(b []byte) error {
	type plain Job
	p := plain{MotherSuperior: true, Owner: Owner{UID: -1, GID: -1}}
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	*j = Job(p)
	return nil
}

// Resources is a PBS resource list: name to value, the value spelled as PBS spells it.
type Resources map[string]string

// notScalar is the error for a resource whose value is not text, a number or a boolean.
func notScalar(name, value string) error {
	kind := "array"
	if strings.HasPrefix(value, "{") {
		kind = "object"
	}
	return &json.UnmarshalTypeError{Value: kind, Type: reflect.TypeFor[string](), Field: Printable(name)}
}

// UnmarshalJSON accepts numbers and booleans as well as strings, since PBS's own JSON mixes them. A
// null adds no entry.
func (r *Resources) UnmarshalJSON(b []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	if raw == nil {
		*r = nil
		return nil
	}
	out := make(Resources, len(raw))
	for name, v := range raw {
		s := string(v)
		switch {
		case s == "null":
			continue
		case s == "true":
			s = "True"
		case s == "false":
			s = "False"
		case s[0] == '"':
			if err := json.Unmarshal(v, &s); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		case s[0] == '{' || s[0] == '[':
			return notScalar(name, s)
		default:
			if _, err := strconv.ParseFloat(s, 64); err != nil {
				return notScalar(name, s)
			}
		}
		out[name] = s
	}
	*r = out
	return nil
}

// jobID follows PBS: a sequence number, for array jobs an index in brackets, and the server's name.
// The length is checked separately: with counted repetitions, compiling the expression takes longer
// than a short program runs.
var jobID = regexp.MustCompile(`^[0-9]+(\[[0-9]*\])?(\.[A-Za-z0-9][A-Za-z0-9._-]*)?$`)

// maxJobID leaves room for prefixes and suffixes in a file name.
const maxJobID = 220

// CheckJobID returns an error unless id has the form of a PBS job id: 12, 12.server, 12[3].server.
// It must be called before a job id becomes part of a path.
func CheckJobID(id string) error {
	if len(id) > maxJobID || !jobID.MatchString(id) {
		if len(id) > 64 {
			id = id[:64] + "..."
		}
		return fmt.Errorf("job id %q: not of the form 12, 12.server or 12[3].server", id)
	}
	return nil
}
