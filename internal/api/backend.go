package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/report"
)

// Events carries out events.
type Events interface {
	// Handle carries out an event of root.
	Handle(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error)
	// HandleUser carries out a user's request, after everything that root wants from the job. If
	// ctx ends before the event has begun, it does not begin. It fails with hostapi.KindBusy if too
	// many wait.
	HandleUser(ctx context.Context, req *hostapi.Request) (*hostapi.Outcome, error)
}

// Jobs answers questions about the jobs of this host.
type Jobs interface {
	// Jobs returns the jobs that live here.
	Jobs(ctx context.Context) ([]Job, error)
	// Job returns a job that lives here, or ErrNotFound.
	Job(ctx context.Context, id string) (Job, error)
	// Report returns the usage report of a live or finished job. It asks may before it does
	// anything for the job, and also returns ErrNotFound for a job that may does not admit. may
	// gets nil for an unknown job.
	Report(ctx context.Context, id string, may func(*hostapi.Job) bool) (json.RawMessage, error)
}

// Reports finds the reports of jobs, mainly of those that have ended.
type Reports interface {
	// Find calls yield with the report of each job that the filter chooses, in its order, until
	// yield returns false. may decides whose jobs are included, and gets -1 for an unknown owner.
	// After the last report, the error is ErrDamaged if some can no longer be read.
	Find(ctx context.Context, filter report.Filter, may func(uid int) bool, yield func(json.RawMessage) bool) error
}

// Node answers questions about the host itself.
type Node interface {
	Node(ctx context.Context) (NodeInfo, error)
	// Reload reads the configuration again; on an error the old one stays in force.
	Reload(ctx context.Context) error
	// NewJobID returns an id that no job of this host has had.
	NewJobID(ctx context.Context) (string, error)
}

// Doctor examines the node.
type Doctor interface {
	// Examine requests an examination, and does not wait for it.
	Examine()
}

// Processes answers questions about processes. Its methods fail with ErrNotFound.
type Processes interface {
	// Number returns the pid here of the process that caller, a process of this host, calls pid.
	Number(caller, pid int) (int, error)
	Process(pid int) (Process, error)
	// Check fails with ErrNotFound unless the process still runs, or with the error of reading it.
	Check(id hostapi.ProcessID) error
	// JobOf returns the job whose cgroup contains the process.
	JobOf(ctx context.Context, pid int) (Job, error)
}

// Process is the information about a process that an attach needs.
type Process struct {
	UID       int    // real
	StartTime uint64 // clock ticks since boot
}

// Job is a job that lives on this host.
type Job struct {
	Job      *hostapi.Job  `json:"job"`
	Phase    hostapi.Phase `json:"phase"`
	Begun    time.Time     `json:"begun,omitzero"`
	Launched time.Time     `json:"launched,omitzero"`
	// nanoseconds, including the current suspension
	Suspended time.Duration `json:"suspended,omitzero"`
	// since its launch, without suspensions
	Elapsed float64 `json:"elapsed_seconds"`
	// of Elapsed; nil without a limit
	Limit *float64 `json:"walltime_limit_seconds,omitempty"`
	// until Limit, 0 after it; nil without a limit
	Left          *float64                      `json:"walltime_left_seconds,omitempty"`
	ResourcesUsed hostapi.Resources             `json:"resources_used,omitempty"`
	Hosts         map[string]*hostapi.HostUsage `json:"hosts,omitempty"`
	Diag          map[string]string             `json:"diag_messages,omitempty"`
	Notes         []string                      `json:"notes,omitempty"`
}

// NodeInfo describes the host and, for root, its hooks.
type NodeInfo struct {
	Version string     `json:"version"`
	PID     int        `json:"pid"`
	Node    string     `json:"node"`
	Mode    string     `json:"mode"` // of the cgroups: v1, hybrid or v2
	Since   time.Time  `json:"since,omitzero"`
	Hooks   []HookInfo `json:"hooks,omitempty"`

	Config *ConfigInfo `json:"config,omitempty"` // for root

	// refused calls and connections since then, by kind of error; for root
	Refused map[string]int64 `json:"refused,omitempty"`
}

// ConfigInfo compares the host's configuration files with the configuration in force.
type ConfigInfo struct {
	File  string `json:"file"`
	Error string `json:"error,omitempty"` // why it cannot be read
	// Reload lists settings that wait for a reload, Restart those that wait for a restart. As long
	// as there is one of the latter, a reload changes nothing.
	Reload  []Setting `json:"reload,omitempty"`
	Restart []Setting `json:"restart,omitempty"`
}

// InForce reports whether all of the host's configuration files are in force.
func (c *ConfigInfo) InForce() bool {
	return c.Error == "" && len(c.Reload) == 0 && len(c.Restart) == 0
}

// Setting is a setting of the configuration with the value in force and the waiting one, as JSON.
type Setting struct {
	Key     string `json:"key"`
	InForce string `json:"in_force"`
	Waits   string `json:"waits"`
}

// HookInfo is the state of a hook.
type HookInfo struct {
	Name     string          `json:"name"`
	State    string          `json:"state"`
	PID      int             `json:"pid,omitempty"`
	Order    int             `json:"order"`
	Events   []hostapi.Event `json:"events,omitempty"`
	Restarts int             `json:"restarts,omitempty"`
	Error    string          `json:"error,omitempty"` // why it does not work
}
