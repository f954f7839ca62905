package host

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/hookhost/hookhost/hostapi"
	"github.com/hookhost/hookhost/internal/jobstate"
	"github.com/hookhost/hookhost/internal/plugin"
	"github.com/hookhost/hookhost/internal/report"
	"github.com/hookhost/hookhost/internal/reports"
	"github.com/hookhost/hookhost/internal/series"
)

// Remover removes a job's processes and cgroup when the responsible hook is not available.
type Remover interface {
	// RemoveJob kills the job's processes and removes its cgroup. If there is none, that is not an
	// error.
	RemoveJob(ctx context.Context, id string) error
}

// Processes answers questions about this machine's processes.
type Processes interface {
	// Alive reports whether the process still runs.
	Alive(id hostapi.ProcessID) bool
	// Wait returns nil when the process has ended, or ctx's error if ctx ends first.
	Wait(ctx context.Context, id hostapi.ProcessID) error
}

// Options are the parts of a Host. All are required.
type Options struct {
	Node      string            // this host as exec_vnode names it
	Self      hostapi.ProcessID // the Host's own process
	Registry  *plugin.Registry
	Store     *jobstate.Store
	Reports   *reports.Store
	Processes Processes
	Log       *logrus.Entry

	// RuntimeDir is for sockets and is replaced. Nobody else may use it.
	RuntimeDir string
	// Fallback removes everything that a failed hook has left.
	Fallback Remover
	// StartTimeout is how long a hook's program may take to start.
	StartTimeout time.Duration
	// Populated reports whether the job's cgroup has processes, no matter who made the cgroup; see
	// beginsLate.
	Populated func(id string) (bool, error)
	Observer  Observer
	// Ended is called when a job's record is gone. It must not wait.
	Ended func()
	// SiteAdvice returns the site's advice for the reports of jobs that end.
	SiteAdvice func() []report.Rule
	// Finished is called with each report that Reports has got, and the series of its hosts. It
	// must not wait.
	Finished func(r *report.Report, points series.Job)
	// SisterUsage is called at the epilogue of a job of pbs_mom. It returns the job's usage of each
	// of its sisters.
	SisterUsage func(rec *jobstate.Record, hosts []string) map[string]SisterUsage
	// PBSHas reports whether the pbs_mom with that home has the job; "" is a home that no event has
	// named. On an error MoM is assumed to have the job.
	PBSHas func(job *hostapi.Job, home string) (bool, error)
	// PBSStarts reports whether the start of a job may still succeed, although another pbs_mom than
	// mom began it. Either mom, with that home, has started a program of the job, or a child of an
	// earlier pbs_mom may be doing so.
	PBSStarts func(job *hostapi.Job, home string, mom hostapi.ProcessID) (bool, error)
}
