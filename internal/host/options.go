package host

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/reports"
)

// Remover removes what a job has in the kernel when the hook that should have is not there to do
// it.
type Remover interface {
	// RemoveJob kills the job's processes and removes its cgroup. A job that has none is no error.
	RemoveJob(ctx context.Context, id string) error
}

// Processes knows the processes of this machine.
type Processes interface {
	// Alive reports whether the process still runs.
	Alive(id hostapi.ProcessID) bool
	// Wait returns nil when the process has ended, ctx's error when that ended first.
	Wait(ctx context.Context, id hostapi.ProcessID) error
}

// Options is what a Host is made of. All of it is needed but for what says otherwise.
type Options struct {
	Node      string            // this host as exec_vnode names it
	Self      hostapi.ProcessID // the process that the Host is in
	Registry  *plugin.Registry
	Store     *jobstate.Store
	Reports   *reports.Store
	Processes Processes
	Log       *logrus.Entry

	// RuntimeDir is for sockets. No other host may use it.
	RuntimeDir string
	// Fallback may be nil: then what a failed hook left is only told.
	Fallback Remover
	// StartTimeout is how long a hook's program may take to start.
	StartTimeout time.Duration
	// Populated reports whether there are processes in the job's cgroup, whoever has made that; see
	// beginsLate. May be nil: then nobody but this host makes any.
	Populated func(id string) (bool, error)
	// Observer may be nil.
	Observer Observer
	// Ended, if set, is called when a job's record has gone, and must not wait.
	Ended func()
	// SisterUsage returns, at the epilogue of a job of pbs_mom's, what the job has used on each of
	// its sisters. May be nil: then that is not known.
	SisterUsage func(rec *jobstate.Record, hosts []string) map[string]SisterUsage
	// PBSHas reports whether the pbs_mom of that home has the job; "" is a home that no event has
	// told. On an error the job is taken for one that MoM has. May be nil: then nobody knows.
	PBSHas func(job *hostapi.Job, home string) (bool, error)
	// PBSStarts reports whether the job's start may still come to something, where another pbs_mom
	// than mom has begun it. Either mom, of that home, has started a program of the job, or a child
	// of an earlier one may be at it. May be nil: then nobody knows.
	PBSStarts func(job *hostapi.Job, home string, mom hostapi.ProcessID) (bool, error)
}
